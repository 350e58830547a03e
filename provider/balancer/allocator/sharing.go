package allocator

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// sharing is with whom a Service shares an address.
type sharing struct {
	shareKey string
	// namespaces are the other ones that it consents to; none where its list is malformed.
	namespaces []string
	// malformed is why its list cannot be read.
	malformed error
	// ports are sorted: tenants may have thousands, and each Service is compared with others in each pass. None without a key.
	ports []port
}

type port struct {
	number   int32
	protocol corev1.Protocol
}

func (p port) compare(q port) int {
	return cmp.Or(cmp.Compare(p.number, q.number), cmp.Compare(p.protocol, q.protocol))
}

// ciliumNamespaces is Cilium's list of namespaces. Its "*" is no consent here.
const ciliumNamespaces = "lbipam.cilium.io/sharing-cross-namespace"

func shareAnnotations() []string {
	return []string{
		v1alpha1.ShareKeyAnnotation, "metallb.io/allow-shared-ip", "metallb.universe.tf/allow-shared-ip",
		"lbipam.cilium.io/sharing-key",
	}
}

func sharingOf(service *corev1.Service) (s sharing) {
	if _, s.shareKey = firstOf(service, shareAnnotations()); s.shareKey != "" {
		for _, p := range service.Spec.Ports {
			s.ports = append(s.ports, port{p.Port, p.Protocol})
		}
		slices.SortFunc(s.ports, port.compare)
	}
	key := v1alpha1.ShareNamespacesAnnotation
	list, ours := service.Annotations[key] // one of ours that is empty withdraws what Cilium's has
	if !ours {
		key, list = ciliumNamespaces, service.Annotations[ciliumNamespaces]
	}
	var err error
	if s.namespaces, err = v1alpha1.ParseShareNamespaces(list); err != nil {
		s.malformed = fmt.Errorf("annotation %s: %w", key, err)
	}
	return s
}

// checkSharing fails a Service with a malformed list of namespaces. It has an address of its own all the same. One with addresses
// of Nodes shares none, and Cilium's annotation is no error of a user of ours.
func (as *Assignment) checkSharing() {
	if as.Request.malformed != nil && !as.NodeIP && as.Service.Annotations[v1alpha1.ShareNamespacesAnnotation] != "" {
		as.fail(finding.SharingConflict.Errorf("%w", as.Request.malformed))
	}
}

// MayShare says why the first Service cannot have the address of the second. Whether it can is the same from both sides.
func MayShare(a, b *corev1.Service) error { return mayShare(a, sharingOf(a), b, sharingOf(b)) }

func (as *Assignment) mayShare(other *Assignment) error {
	return mayShare(as.Service, as.Request.sharing, other.Service, other.Request.sharing)
}

// mayShare looks at consent first: of a Service whose namespace does not consent, neither key nor ports are told.
func mayShare(a *corev1.Service, sa sharing, b *corev1.Service, sb sharing) error {
	if err := consent(a.Namespace, sa, NameOf(b), sb); err != nil {
		return err
	}
	if sa.shareKey == "" || sa.shareKey != sb.shareKey {
		return fmt.Errorf("Service/%s has another share key", NameOf(b)) //nolint:staticcheck // a kind is a name
	}
	if p, both := common(sa.ports, sb.ports); both {
		return fmt.Errorf("Service/%s has port %d/%s, too", NameOf(b), p.number, p.protocol) //nolint:staticcheck // a kind is a name
	}
	if needSamePods(a, b) && !samePods(a, b) {
		return fmt.Errorf("externalTrafficPolicy is Local, and Service/%s has other pods", NameOf(b))
	}
	return nil
}

// common is the lowest port that two sorted lists have both.
func common(a, b []port) (port, bool) {
	for len(a) > 0 && len(b) > 0 {
		switch order := a[0].compare(b[0]); {
		case order == 0:
			return a[0], true
		case order < 0:
			a = a[1:]
		default:
			b = b[1:]
		}
	}
	return port{}, false
}

// consent says which of two Services does not list the namespace of the other.
func consent(namespace string, own sharing, other types.NamespacedName, theirs sharing) error {
	switch {
	case namespace == other.Namespace:
		return nil
	case own.malformed != nil:
		return own.malformed
	case !slices.Contains(own.namespaces, other.Namespace):
		return fmt.Errorf("annotation %s of this Service does not list %s, the namespace of Service/%s",
			v1alpha1.ShareNamespacesAnnotation, other.Namespace, other)
	case !slices.Contains(theirs.namespaces, namespace):
		return fmt.Errorf("annotation %s of Service/%s does not list %s", v1alpha1.ShareNamespacesAnnotation, other, namespace)
	}
	return nil
}

// needSamePods reports whether one of the Services sends packets to pods of the Node alone.
func needSamePods(a, b *corev1.Service) bool {
	local := corev1.ServiceExternalTrafficPolicyLocal
	return a.Spec.ExternalTrafficPolicy == local || b.Spec.ExternalTrafficPolicy == local
}

// samePods reports whether the Services select the same pods. Those of two namespaces never do.
func samePods(a, b *corev1.Service) bool {
	if a.Namespace != b.Namespace || len(a.Spec.Selector) == 0 || len(a.Spec.Selector) != len(b.Spec.Selector) {
		return false
	}
	for key, value := range a.Spec.Selector {
		if b.Spec.Selector[key] != value {
			return false
		}
	}
	return true
}

// shareWith says why a Service cannot have the address with one of its owners.
func (a *allocation) shareWith(as *Assignment, owner types.NamespacedName, address netip.Addr) *finding.Finding {
	other := a.Services[owner]
	err := as.mayShare(other)
	switch {
	case err == nil:
		return nil
	case as.meantToShare(other):
		return finding.SharingConflict.Errorf("share %s: %w", address, err)
	}
	return finding.AddressInUse.Errorf("%s belongs to Service/%s", address, owner)
}

// meantToShare tells a Service that is to share the address, and is refused, from one that asks for another's. Of two namespaces
// one consents at least.
func (as *Assignment) meantToShare(other *Assignment) bool {
	own, theirs := as.Request.sharing, other.Request.sharing
	if own.shareKey == "" || as.Service.Namespace == other.Service.Namespace {
		return own.shareKey != "" && own.shareKey == theirs.shareKey
	}
	return own.malformed != nil || slices.Contains(own.namespaces, other.Service.Namespace) ||
		slices.Contains(theirs.namespaces, as.Service.Namespace)
}

// withLoss adds to a problem why the Service does not share the address any more that it had.
func (as *Assignment) withLoss(problem *finding.Finding) *finding.Finding {
	if as.unshared == nil {
		return problem
	}
	return problem.ID.Errorf("%w; %s", problem, as.unshared.Message)
}
