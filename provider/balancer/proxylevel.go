package balancer

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// notCarried says what a Service asks for that the level of its addresses does not have: agents carry TCP at level
// Proxy, and know the PROXY protocol; kube-proxy, which carries at all others, carries everything and knows none.
func (j *judge) notCarried(as *assignment) *finding.Finding {
	const key = v1alpha1.ProxyProtocolAnnotation
	version, asks := as.service.Annotations[key]
	if as.nodeIP && asks {
		return finding.LevelLacks.Errorf("annotation %s: level NodeIP has no PROXY protocol", key)
	}
	for _, ipv6 := range families6(as.service) {
		address, has := as.by[ipv6]
		if !has {
			continue
		}
		if level := j.plan.claims[address].level; level != v1alpha1.LevelProxy {
			if asks {
				return finding.LevelLacks.Errorf("annotation %s: level %s of %s has no PROXY protocol", key, level, address)
			}
			continue
		}
		if asks && version != v1alpha1.ProxyProtocolV2 {
			return finding.LevelLacks.Errorf("annotation %s: %q is not %s", key, version, v1alpha1.ProxyProtocolV2)
		}
		for _, p := range as.service.Spec.Ports {
			if p.Protocol != corev1.ProtocolTCP {
				return finding.LevelLacks.Errorf("port %d/%s: level Proxy of %s carries TCP only", p.Port, p.Protocol, address)
			}
		}
	}
	return nil
}

// ingresses are claimed addresses as the status has them. One of level Proxy is none that kube-proxy may bind, once an
// agent carries it: where an address comes to that level, agents may be of a release which does not know it.
func (j *judge) ingresses(service *corev1.Service, list []netip.Addr) []corev1.LoadBalancerIngress {
	before := map[string]corev1.LoadBalancerIPMode{}
	for _, i := range service.Status.LoadBalancer.Ingress {
		if i.IPMode != nil {
			before[i.IP] = *i.IPMode
		}
	}
	var ingress []corev1.LoadBalancerIngress
	for _, address := range list {
		mode, text := corev1.LoadBalancerIPModeVIP, address.String()
		if j.plan.claims[address].level == v1alpha1.LevelProxy &&
			(j.announced(address) || before[text] == corev1.LoadBalancerIPModeProxy) {
			mode = corev1.LoadBalancerIPModeProxy
		}
		ingress = append(ingress, corev1.LoadBalancerIngress{IP: text, IPMode: &mode})
	}
	return ingress
}
