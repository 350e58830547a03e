package balancer

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/balancer/evaluation"
)

// order is in which order Services are written between which an address moves. All others come before.
//
// A kube-proxy that has nothing to do applies the first change that it sees at once, and the next one a second later (minSyncPeriod).
// It takes two Services with one address: one of both has the packets, in modes nftables, iptables and ipvs. So the one that gets
// the address is written first, and no packet is without a Service. Other programs may refuse the second Service of an address,
// Cilium among them: for these the one that loses it is written first.
type order struct {
	rest, first, then []types.NamespacedName
	// others are between which and the Service an address moves.
	others map[types.NamespacedName][]types.NamespacedName
	// overlap says that the one that gets the address comes first.
	overlap bool
}

func orderOf(statuses map[types.NamespacedName]*evaluation.Status, overlap bool) *order {
	losers, gainers := map[netip.Addr][]types.NamespacedName{}, map[netip.Addr][]types.NamespacedName{}
	for name, st := range statuses {
		if slices.EqualFunc(st.Service.Status.LoadBalancer.Ingress, st.After.Status.LoadBalancer.Ingress, sameIP) {
			continue // as nearly all: no address is parsed
		}
		before, after := ingressOf(st.Service), ingressOf(st.After)
		for _, address := range before {
			if !slices.Contains(after, address) {
				losers[address] = append(losers[address], name)
			}
		}
		for _, address := range after {
			if !slices.Contains(before, address) {
				gainers[address] = append(gainers[address], name)
			}
		}
	}
	o := &order{others: map[types.NamespacedName][]types.NamespacedName{}, overlap: overlap}
	late, early := gainers, losers
	if overlap {
		late, early = losers, gainers
	}
	for address, names := range late {
		for _, name := range names {
			if len(early[address]) > 0 {
				o.others[name] = append(o.others[name], early[address]...)
			}
		}
	}
	concerned := map[types.NamespacedName]bool{}
	for _, names := range o.others {
		for _, name := range names {
			concerned[name] = true
		}
	}
	for name := range statuses {
		switch {
		case len(o.others[name]) > 0: // also one that is both, where two Services swap addresses
			o.then = append(o.then, name)
		case concerned[name]:
			o.first = append(o.first, name)
		default:
			o.rest = append(o.rest, name)
		}
	}
	return o
}

func sameIP(a, b corev1.LoadBalancerIngress) bool { return a.IP == b.IP }

// ingressOf are the addresses in the status, and no request of annotations.
func ingressOf(service *corev1.Service) []netip.Addr { return allocator.Earlier(service, true) }
