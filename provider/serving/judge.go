package serving

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	nodeutil "k8s.io/component-helpers/node/util"

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

	own sets.Set[string] // what is known of the Node, in its one spelling
}

// of is nil if all that is asked for is the Node's, and only the Node's.
func (j *judgement) of(r *request) error {
	j.own = sets.New[string]()
	for _, address := range j.identity.Addresses {
		j.own.Insert(canonical(address.Address))
	}
	for _, name := range r.names {
		if err := j.name(name); err != nil {
			return err
		}
	}
	for _, ip := range r.ips {
		if err := j.ip(ip); err != nil {
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
func (j *judgement) name(name string) error {
	node := strings.ToLower(j.node.Name)
	switch {
	case len(validation.IsDNS1123Subdomain(name)) > 0:
		return hold("WrongNames", "it asks for %q, which is no name of a machine", name)
	case looksLikeAddress(name):
		return hold("WrongNames", "it asks for name %q, which has the form of an address", name)
	case inCluster(name):
		return hold("ReservedName", "it asks for %q: a Service may have that name, or every machine", name)
	case j.reserved.endpoint(name) && !controlPlane(j.node):
		return hold("ReservedName", "it asks for %q, by which the API server is reached", name)
	case j.proven(name):
		return nil
	case j.reserved.names.Has(name):
		return hold("ReservedName", "it asks for %q, by which a Service or a webhook is reached", name)
	case name == node && !strings.Contains(name, ".") && !strings.HasPrefix(name, punycode):
		return nil
	case j.allowed(name):
		return nil
	case name == node && !j.names.match(name):
		pattern := name
		if domain := strings.TrimPrefix(name, label(name)); domain != "" {
			pattern = "*" + domain
		}
		return hold("NameNotProven", "it asks for name %q, which is not proven to be that of Node/%s: add a pattern such as %q to "+
			"servingCertificates.names, or, with provider onprem, list the machine with this hostname in the inventory",
			name, j.node.Name, pattern)
	}
	return hold("NameNotOfNode", "it asks for name %q, which only its kubelet gives for Node/%s", name, j.node.Name)
}

// punycode begins a name with other letters than those of ASCII. It may be shown as any other name.
const punycode = "xn--"

// proven reports whether the inventory lists the name for the machine.
func (j *judgement) proven(name string) bool { return j.identity.Proven && j.own.Has(name) }

// allowed reports whether a pattern covers the name, and the name is the Node's: its own, its own below a domain, or one that a
// vendor's manager gave it. Where the manager gives names, others do not count. Nor do names in the status that its kubelet
// wrote, and the first label of a name with dots: another machine may have that name.
func (j *judgement) allowed(name string) bool {
	switch node := strings.ToLower(j.node.Name); {
	case !j.names.match(name):
		return false
	case j.identity.Guarded && slices.ContainsFunc(j.identity.Addresses, isDNS):
		return j.own.Has(name)
	default:
		return name == node || label(name) == node
	}
}

func isDNS(a corev1.NodeAddress) bool {
	return a.Type == corev1.NodeInternalDNS || a.Type == corev1.NodeExternalDNS
}

// label is the first one of a name.
func label(name string) string {
	first, _, _ := strings.Cut(name, ".")
	return first
}

// looksLikeAddress reports whether a resolver or a browser may take the name for an IPv4 address, in any of its forms
// (inet_aton): 10.1, 2130706433, 0x7f.1. IPv6 addresses are no DNS names.
func looksLikeAddress(name string) bool {
	last := name[strings.LastIndex(name, ".")+1:]
	if hexadecimal, is := strings.CutPrefix(last, "0x"); is {
		return strings.Trim(hexadecimal, "0123456789abcdef") == ""
	}
	_, err := strconv.ParseUint(last, 0, 64)
	return err == nil || strings.Trim(last, "0123456789") == ""
}

// inCluster reports whether cluster DNS may answer with a Service for the name, or a machine with itself.
func inCluster(name string) bool {
	switch label(name) {
	case "localhost", "localhost4", "localhost6", "ip6-localhost", "ip6-loopback":
		return true
	}
	return name == "kubernetes" || name == "kubernetes.default" || strings.HasSuffix(name, ".localhost") ||
		strings.HasSuffix(name, ".svc") || strings.Contains(name, ".svc.")
}

// ip judges one.
func (j *judgement) ip(ip netip.Addr) error {
	inRange := slices.ContainsFunc(j.ranges, func(r netip.Prefix) bool { return r.Contains(ip) })
	of := slices.IndexFunc(j.reserved.services, func(r netip.Prefix) bool { return r.Contains(ip) })
	switch {
	case !ip.IsGlobalUnicast():
		return hold("ReservedAddress", "it asks for %s, which is no address of one machine", ip)
	case of >= 0:
		return hold("ReservedAddress", "it asks for %s, and %s is for Services", ip, j.reserved.services[of])
	case j.reserved.endpoints.Has(ip.String()) && !controlPlane(j.node):
		return hold("ReservedAddress", "it asks for %s, at which the API server is reached", ip)
	case !j.own.Has(ip.String()):
		return hold("AddressNotOfNode", "it asks for %s, which is not among the addresses that are known of Node/%s", ip, j.node.Name)
	case !j.identity.Proven && !inRange:
		return hold("AddressNotProven", "it asks for %s, which is not proven to be that of Node/%s: name a range in "+
			"servingCertificates.addressRanges, or, with provider onprem, list the machine with its addresses in the inventory", ip, j.node.Name)
	}
	return nil
}

// unique is an error if another Node has what is asked for. What is proven to be this Node's is not taken by what another kubelet
// claims, be it by its Node's name. A Node that waits for its initialization has its addresses from its kubelet, and so has
// any Node the annotation.
func (j *judgement) unique(r *request, other *corev1.Node) error {
	if j.identity.Named && other.Spec.ProviderID == j.node.Spec.ProviderID {
		return nil // it may stay for ever, as with policy.deletion: never
	}
	taken := func(what string) error {
		return hold("AddressTaken", "it asks for %s, which Node/%s has, too", what, other.Name)
	}
	waits := resolved(other) != nil
	for _, name := range r.names {
		switch known := j.proven(name) || j.identity.Guarded && waits && j.own.Has(name); {
		case known: // a Node that is called so takes nothing away
		case name == strings.ToLower(other.Name):
			return taken(name)
		case j.confused(name, other):
			return hold("AddressTaken", "it asks for %s, by which Node/%s may be reached, which is older", name, other.Name)
		}
	}
	if waits && (j.identity.Proven || j.identity.Guarded) {
		return nil
	}
	if other.Spec.ProviderID == j.node.Spec.ProviderID && !j.node.CreationTimestamp.Before(&other.CreationTimestamp) {
		return hold("ProviderIDTaken", "Node/%s and Node/%s have one provider ID: if the machine was renamed, delete Node/%s, or, with "+
			"provider onprem, list the machine with hostname %s", j.node.Name, other.Name, other.Name, j.node.Name)
	}
	if j.identity.Proven {
		return nil
	}
	has := j.addressesOf(other)
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

// confused reports whether a name may be a shorter or a longer form of that of another Node, which is not younger.
func (j *judgement) confused(name string, other *corev1.Node) bool {
	if j.node.CreationTimestamp.Before(&other.CreationTimestamp) {
		return false
	}
	node := strings.ToLower(other.Name)
	return label(name) == label(node) && strings.Contains(name, ".") != strings.Contains(node, ".")
}

// addressesOf are those of another Node that count. Where kubelets alone speak for them, a younger Node has what --node-ip can
// give it, one of each family: else one that registers with hundreds would stop as many.
func (j *judgement) addressesOf(other *corev1.Node) sets.Set[string] {
	has, families := sets.New[string](), sets.New[bool]()
	younger := j.node.CreationTimestamp.Before(&other.CreationTimestamp)
	for _, address := range other.Status.Addresses {
		if ip, err := netip.ParseAddr(address.Address); err == nil && younger && !j.identity.Guarded {
			if families.Has(ip.Is4()) {
				continue
			}
			families.Insert(ip.Is4())
		}
		has.Insert(canonical(address.Address))
	}
	if j.identity.Guarded {
		return has
	}
	ips, err := nodeutil.ParseNodeIPAnnotation(other.Annotations[v1alpha1.ProvidedNodeIPAnnotation])
	if err != nil {
		return has // no manager takes it
	}
	for _, ip := range ips {
		has.Insert(canonical(ip.String()))
	}
	return has
}

// canonical is the one spelling of an address or a name.
func canonical(text string) string {
	text = strings.TrimSpace(text)
	if ip, err := netip.ParseAddr(text); err == nil {
		return ip.Unmap().String()
	}
	return strings.ToLower(strings.TrimSuffix(text, "."))
}

// controlPlane reports whether the Node is labelled as one, which its kubelet cannot do itself.
func controlPlane(node *corev1.Node) bool {
	_, is := node.Labels[v1alpha1.ControlPlaneLabel]
	return is
}
