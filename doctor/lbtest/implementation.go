package lbtest

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// implementation is a program that serves load balancers, as far as its annotations differ from others'.
type implementation struct {
	name string
	// annotations and conditions are what it leaves on a Service that it serves, any of them.
	annotations, conditions []string
	// addresses and share are the annotations that ask for addresses, and that let Services share one. Empty: it has none.
	addresses, share string
}

// implementations are those that are recognized.
func implementations() []implementation {
	return []implementation{
		{
			name: "ccmadm", annotations: []string{v1alpha1.AllocatedAnnotation}, conditions: []string{v1alpha1.LoadBalancerReady},
			addresses: v1alpha1.AddressesAnnotation, share: v1alpha1.ShareKeyAnnotation,
		},
		{
			name: "MetalLB", annotations: []string{"metallb.io/ip-allocated-from-pool", "metallb.universe.tf/ip-allocated-from-pool"},
			addresses: "metallb.io/loadBalancerIPs", share: "metallb.io/allow-shared-ip",
		},
		{
			name: "Cilium", conditions: []string{"cilium.io/IPAMRequestSatisfied"},
			addresses: "lbipam.cilium.io/ips", share: "lbipam.cilium.io/sharing-key",
		},
		{
			name: "kube-vip", annotations: []string{"kube-vip.io/vipHost", "kube-vip.io/loadbalancerIPs"},
			addresses: "kube-vip.io/loadbalancerIPs",
		},
	}
}

func (i *implementation) serves(svc *corev1.Service) bool {
	return slices.ContainsFunc(i.annotations, func(key string) bool { return svc.Annotations[key] != "" }) ||
		slices.ContainsFunc(svc.Status.Conditions, func(c metav1.Condition) bool { return slices.Contains(i.conditions, c.Type) })
}

// recognize looks at the first Service that has an address.
func (s *suite) recognize(svc *corev1.Service) {
	if s.implementation != nil {
		return
	}
	s.implementation = &implementation{}
	for _, i := range implementations() {
		if i.serves(svc) {
			s.implementation = &i
			s.tell("note: load balancers are served by %s", i.name)
			break
		}
	}
	s.report.Implementation = s.implementation.name
}

// recognized is true for an implementation of which it is known what it does.
func (s *suite) recognized() bool { return s.implementation != nil && s.implementation.name != "" }

// asks is the annotation that asks for addresses; empty: none is known. Call it once a Service has an address.
func (s *suite) asks() string { return cmp.Or(s.AddressAnnotation, s.implementation.addresses) }

// shares is the annotation that lets Services share an address.
func (s *suite) shares() string { return cmp.Or(s.ShareAnnotation, s.implementation.share) }
