package balancer

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// request is what a Service asks for.
type request struct {
	addresses []netip.Addr
	pool      string
	shareKey  string
	reassign  bool
	nodeIP    bool // LevelAnnotation
}

// Ours come first, then those of MetalLB, kube-vip and Cilium, so that nobody has to edit charts to come over.
func addressAnnotations() []string {
	return []string{
		v1alpha1.AddressesAnnotation, "metallb.io/loadBalancerIPs", "metallb.universe.tf/loadBalancerIPs",
		"kube-vip.io/loadbalancerIPs", "lbipam.cilium.io/ips", "io.cilium/lb-ipam-ips",
	}
}

func poolAnnotations() []string {
	return []string{v1alpha1.PoolAnnotation, "metallb.io/address-pool", "metallb.universe.tf/address-pool"}
}

func shareAnnotations() []string {
	return []string{
		v1alpha1.ShareKeyAnnotation, "metallb.io/allow-shared-ip", "metallb.universe.tf/allow-shared-ip",
		"lbipam.cilium.io/sharing-key",
	}
}

// requestOf reads what the Service asks for. An address that cannot be read, or of a family that the Service does not
// have, is a finding.
func requestOf(service *corev1.Service) (request, *finding.Finding) {
	first := func(keys []string) (string, string) {
		for _, key := range keys {
			if value := service.Annotations[key]; value != "" {
				return key, value
			}
		}
		return "", ""
	}
	r := request{
		reassign: service.Annotations[v1alpha1.ReassignAnnotation] == "true",
		nodeIP:   service.Annotations[v1alpha1.LevelAnnotation] == string(v1alpha1.LevelNodeIP),
	}
	_, r.pool = first(poolAnnotations())
	_, r.shareKey = first(shareAnnotations())
	from, text := first(addressAnnotations())
	if text == "" {
		from, text = "spec.loadBalancerIP", service.Spec.LoadBalancerIP
	}
	families := map[bool]bool{}
	for _, part := range strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ' ' }) {
		address, err := netip.ParseAddr(part)
		if err != nil {
			return r, finding.AddressOutsidePools.Errorf("%s: %w", from, err)
		}
		address = address.Unmap().WithZone("")
		if !slices.Contains(families6(service), address.Is6()) {
			return r, finding.NoSuchFamily.Errorf("%s: %s is not of the Service's ipFamilies %v", from, address,
				service.Spec.IPFamilies)
		}
		if families[address.Is6()] {
			return r, finding.NoSuchFamily.Errorf("%s: %q has two addresses of one family", from, text)
		}
		families[address.Is6()] = true
		r.addresses = append(r.addresses, address)
	}
	return r, nil
}

// of returns the address of the family that is asked for.
func (r request) of(ipv6 bool) (netip.Addr, bool) {
	i := slices.IndexFunc(r.addresses, func(a netip.Addr) bool { return a.Is6() == ipv6 })
	if i < 0 {
		return netip.Addr{}, false
	}
	return r.addresses[i], true
}

// families6 are the families of the Service in its order; true is IPv6.
func families6(service *corev1.Service) []bool {
	var list []bool
	for _, family := range service.Spec.IPFamilies {
		list = append(list, family == corev1.IPv6Protocol)
	}
	if len(list) == 0 {
		return []bool{false}
	}
	return list
}

// needsAll says that the Service wants all of its families or none.
func needsAll(service *corev1.Service) bool {
	policy := service.Spec.IPFamilyPolicy
	return policy == nil || *policy != corev1.IPFamilyPolicyPreferDualStack
}

// familyName is for messages.
func familyName(ipv6 bool) corev1.IPFamily {
	if ipv6 {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// served says whether the Service is ours: of type LoadBalancer, of our class or none, and not being deleted.
func served(service *corev1.Service) bool {
	return service.Spec.Type == corev1.ServiceTypeLoadBalancer && service.DeletionTimestamp == nil &&
		(service.Spec.LoadBalancerClass == nil || *service.Spec.LoadBalancerClass == v1alpha1.LoadBalancerClass)
}

func nameOf(service *corev1.Service) types.NamespacedName {
	return types.NamespacedName{Namespace: service.Namespace, Name: service.Name}
}

// earlier are the addresses that the Service had, from its annotation and then from its status: requests only, since
// tenants who write Services can write them.
func earlier(service *corev1.Service, fromStatus bool) []netip.Addr {
	var texts []string
	if fromStatus {
		for _, ingress := range service.Status.LoadBalancer.Ingress {
			texts = append(texts, ingress.IP)
		}
	} else {
		texts = strings.Split(service.Annotations[v1alpha1.AllocatedAnnotation], ",")
	}
	var list []netip.Addr
	for _, text := range texts {
		if address, err := netip.ParseAddr(strings.TrimSpace(text)); err == nil {
			list = append(list, address.Unmap().WithZone(""))
		}
	}
	return list
}

// mayShare says why two Services cannot have one address.
func mayShare(a, b *corev1.Service) error {
	ra, _ := requestOf(a)
	rb, _ := requestOf(b)
	switch {
	case a.Namespace != b.Namespace:
		return fmt.Errorf("Service/%s is in another namespace", nameOf(b)) //nolint:staticcheck // a kind is a name
	case ra.shareKey == "" || ra.shareKey != rb.shareKey:
		return fmt.Errorf("Service/%s has not the same share key", nameOf(b)) //nolint:staticcheck // a kind is a name
	}
	for _, p := range a.Spec.Ports {
		for _, q := range b.Spec.Ports {
			if p.Port == q.Port && p.Protocol == q.Protocol {
				return fmt.Errorf("Service/%s has port %d/%s, too", nameOf(b), p.Port, p.Protocol) //nolint:staticcheck // a kind is a name
			}
		}
	}
	local := corev1.ServiceExternalTrafficPolicyLocal
	if (a.Spec.ExternalTrafficPolicy == local || b.Spec.ExternalTrafficPolicy == local) && !samePods(a, b) {
		return fmt.Errorf("externalTrafficPolicy is Local, and Service/%s has other pods", nameOf(b))
	}
	return nil
}

func samePods(a, b *corev1.Service) bool {
	if len(a.Spec.Selector) == 0 || len(a.Spec.Selector) != len(b.Spec.Selector) {
		return false
	}
	for key, value := range a.Spec.Selector {
		if b.Spec.Selector[key] != value {
			return false
		}
	}
	return true
}
