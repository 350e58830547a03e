package serving

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// judgement is what a request is held against: its Node, and what is known of that; all other Nodes; and what no Node
// may have.
type judgement struct {
	node     *corev1.Node
	identity Identity
	others   []*corev1.Node
	reserved reserved
	ranges   []netip.Prefix
	names    Names
}

// of is nil if all that is asked for is the Node's, and only the Node's.
func (j *judgement) of(r *request) error {
	own := sets.New[string]()
	for _, address := range j.identity.Addresses {
		own.Insert(canonical(address.Address))
	}
	for _, name := range r.names {
		if err := j.name(name, own); err != nil {
			return err
		}
	}
	for _, ip := range r.ips {
		if err := j.ip(ip, own); err != nil {
			return err
		}
	}
	for _, other := range j.others {
		if err := j.unique(r, other); err != nil {
			return err
		}
	}
	return nil
}

// name judges one. A kubelet chooses the name of its Node, and so does the holder of a bootstrap token: without a proof it counts
// only where nothing but a machine of the cluster can have it.
func (j *judgement) name(name string, own sets.Set[string]) error {
	name = strings.ToLower(name)
	switch {
	case len(validation.IsDNS1123Subdomain(name)) > 0:
		return hold("WrongNames", "it asks for %q, which is no name of a machine", name)
	case looksLikeAddress(name):
		return hold("WrongNames", "it asks for name %q, which has the form of an address", name)
	case inCluster(name):
		return hold("ReservedName", "it asks for %q: a Service may have that name", name)
	case j.reserved.endpoints.Has(name) && !controlPlane(j.node):
		return hold("ReservedName", "it asks for %q, by which the API server is reached", name)
	case j.identity.Proven && own.Has(name):
		return nil
	case j.reserved.names.Has(name):
		return hold("ReservedName", "it asks for %q, by which a Service or a webhook is reached", name)
	case name == strings.ToLower(j.node.Name) && !strings.Contains(name, "."):
		return nil
	case j.names.match(name) && (own.Has(name) || label(name) == label(strings.ToLower(j.node.Name))):
		return nil
	case name == strings.ToLower(j.node.Name):
		return hold("NameNotProven", "it asks for name %q, which is not proven to be that of Node/%s: add a pattern such as %q to "+
			"servingCertificates.names, or, with provider onprem, list the machine with this hostname in the inventory",
			name, j.node.Name, "*"+strings.TrimPrefix(name, label(name)))
	}
	return hold("NameNotOfNode", "it asks for name %q, which only its kubelet gives for Node/%s", name, j.node.Name)
}

// label is the first one of a name.
func label(name string) string {
	first, _, _ := strings.Cut(name, ".")
	return first
}

// looksLikeAddress says whether a resolver may take the name for an IPv4 address, in any of its forms (inet_aton): 10.1,
// 2130706433, 0x7f.1. IPv6 addresses are no DNS names.
func looksLikeAddress(name string) bool {
	last := name[strings.LastIndex(name, ".")+1:]
	_, err := strconv.ParseUint(last, 0, 64)
	return err == nil || strings.Trim(last, "0123456789") == ""
}

// inCluster says whether cluster DNS may answer with a Service for the name, or a machine with itself.
func inCluster(name string) bool {
	return name == "localhost" || name == "kubernetes" || name == "kubernetes.default" ||
		strings.HasSuffix(name, ".svc") || strings.Contains(name, ".svc.")
}

// ip judges one.
func (j *judgement) ip(ip netip.Addr, own sets.Set[string]) error {
	inRange := slices.ContainsFunc(j.ranges, func(r netip.Prefix) bool { return r.Contains(ip) })
	of := slices.IndexFunc(j.reserved.services, func(r netip.Prefix) bool { return r.Contains(ip) })
	switch {
	case !ip.IsGlobalUnicast():
		return hold("ReservedAddress", "it asks for %s, which is no address of one machine", ip)
	case of >= 0:
		return hold("ReservedAddress", "it asks for %s, and %s is for Services", ip, j.reserved.services[of])
	case j.reserved.endpoints.Has(ip.String()) && !controlPlane(j.node):
		return hold("ReservedAddress", "it asks for %s, at which the API server is reached", ip)
	case !own.Has(ip.String()):
		return hold("AddressNotOfNode", "it asks for %s, which is not among the addresses that are known of Node/%s", ip, j.node.Name)
	case !j.identity.Proven && !inRange:
		return hold("AddressNotProven", "it asks for %s, which is not proven to be that of Node/%s: name a range in "+
			"servingCertificates.addressRanges, or, with provider onprem, list the machine with its addresses in the inventory", ip, j.node.Name)
	}
	return nil
}

// unique is an error if another Node has what is asked for. What is proven to be this Node's is not taken by what another kubelet
// claims. A Node that waits for its initialization has its addresses from its kubelet, and so has any Node the annotation.
func (j *judgement) unique(r *request, other *corev1.Node) error {
	taken := func(what string) error {
		return hold("AddressTaken", "it asks for %s, which Node/%s has, too", what, other.Name)
	}
	for _, name := range r.names {
		if strings.EqualFold(name, other.Name) {
			return taken(name)
		}
	}
	waits := resolved(other) != nil
	if waits && (j.identity.Proven || j.identity.Guarded) {
		return nil
	}
	if other.Spec.ProviderID == j.node.Spec.ProviderID && !j.node.CreationTimestamp.Before(&other.CreationTimestamp) {
		return hold("ProviderIDTaken", "Node/%s and Node/%s have one provider ID", j.node.Name, other.Name)
	}
	if j.identity.Proven {
		return nil
	}
	has := sets.New[string]()
	for _, address := range other.Status.Addresses {
		has.Insert(canonical(address.Address))
	}
	if !j.identity.Guarded {
		for text := range strings.SplitSeq(other.Annotations[v1alpha1.ProvidedNodeIPAnnotation], ",") {
			has.Insert(canonical(text))
		}
	}
	for _, name := range r.names {
		if has.Has(canonical(name)) {
			return taken(name)
		}
	}
	for _, ip := range r.ips {
		if has.Has(ip.String()) {
			return taken(ip.String())
		}
	}
	return nil
}

// canonical is the one spelling of an address or a name.
func canonical(text string) string {
	text = strings.TrimSpace(text)
	if ip, err := netip.ParseAddr(text); err == nil {
		return ip.Unmap().String()
	}
	return strings.ToLower(text)
}

// controlPlane says whether the Node is labelled as one, which its kubelet cannot do itself.
func controlPlane(node *corev1.Node) bool {
	_, is := node.Labels[v1alpha1.ControlPlaneLabel]
	return is
}
