package balancer

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
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
	// layers are written one after the other, and the Services of each at once.
	layers [][]types.NamespacedName
	// others are between which and the Service an address moves, and moves are those of one family.
	others map[types.NamespacedName][]types.NamespacedName
	moves  map[family][]types.NamespacedName
	// overlap says that the one that gets the address comes first.
	overlap bool
}

// family is one of a Service, which has one address of it.
type family struct {
	service types.NamespacedName
	ipv6    bool
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
	o := &order{others: map[types.NamespacedName][]types.NamespacedName{}, moves: map[family][]types.NamespacedName{}, overlap: overlap}
	late, early := gainers, losers
	if overlap {
		late, early = losers, gainers
	}
	for address, names := range late {
		for _, name := range names {
			if len(early[address]) > 0 {
				of := family{name, address.Is6()}
				o.others[name] = append(o.others[name], early[address]...)
				o.moves[of] = append(o.moves[of], early[address]...)
			}
		}
	}
	concerned := map[types.NamespacedName]bool{}
	for _, names := range o.others {
		for _, name := range names {
			concerned[name] = true
		}
	}
	var rest, first, later []types.NamespacedName
	for name := range statuses {
		switch {
		case len(o.others[name]) > 0: // also one that is both, as in a chain or where two Services swap addresses
			later = append(later, name)
		case concerned[name]:
			first = append(first, name)
		default:
			rest = append(rest, name)
		}
	}
	o.layers = append([][]types.NamespacedName{rest, first}, o.layered(later)...)
	return o
}

// layered has each of the Services after all of its others. Those that wait for each other in a circle come one by one.
func (o *order) layered(names []types.NamespacedName) [][]types.NamespacedName {
	slices.SortFunc(names, func(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) })
	left := map[types.NamespacedName]bool{}
	for _, name := range names {
		left[name] = true
	}
	var layers [][]types.NamespacedName
	for len(names) > 0 {
		waits := func(name types.NamespacedName) bool {
			return slices.ContainsFunc(o.others[name], func(other types.NamespacedName) bool { return left[other] })
		}
		var layer []types.NamespacedName
		for _, name := range names {
			if !waits(name) {
				layer = append(layer, name)
			}
		}
		if len(layer) == 0 {
			layer = []types.NamespacedName{o.inCircle(names[0], left)}
		}
		for _, name := range layer {
			delete(left, name)
		}
		layers = append(layers, layer)
		names = slices.DeleteFunc(slices.Clone(names), func(name types.NamespacedName) bool { return !left[name] })
	}
	return layers
}

// inCircle is a Service of the circle for which, at last, the one waits: all that are left wait for another.
func (o *order) inCircle(name types.NamespacedName, left map[types.NamespacedName]bool) types.NamespacedName {
	seen := map[types.NamespacedName]bool{}
	for !seen[name] {
		seen[name] = true
		i := slices.IndexFunc(o.others[name], func(other types.NamespacedName) bool { return left[other] })
		name = o.others[name][i]
	}
	return name
}

func sameIP(a, b corev1.LoadBalancerIngress) bool { return a.IP == b.IP }

// ingressOf are the addresses in the status, and no request of annotations.
func ingressOf(service *corev1.Service) []netip.Addr { return allocator.Earlier(service, true) }

// isHalf reports whether a Service that wants all of its families or none would get an address of one while it has none of the other,
// which is held.
func isHalf(st *evaluation.Status, held bool) bool {
	before := ingressOf(st.Service)
	return allocator.NeedsAll(st.Service) && len(allocator.Families(st.Service)) > 1 &&
		!slices.ContainsFunc(before, func(a netip.Addr) bool { return a.Is6() == held }) &&
		slices.ContainsFunc(ingressOf(st.After), func(a netip.Addr) bool { return a.Is6() != held && !slices.Contains(before, a) })
}

// withHeld is what may be written of a Service while some of its families are held: the addresses of the others. What else is to be
// written speaks of all of them. But once an address is published, the request for another one is carried out: the next pass would
// take what is published for the address that is to be replaced.
func withHeld(st *evaluation.Status, held []bool) *evaluation.Status {
	after := st.Service.DeepCopy()
	is6 := func(i corev1.LoadBalancerIngress) bool {
		address, err := netip.ParseAddr(i.IP)
		return err == nil && address.Unmap().Is6()
	}
	of := func(from *corev1.Service, kept bool) []corev1.LoadBalancerIngress {
		return slices.DeleteFunc(slices.Clone(from.Status.LoadBalancer.Ingress), func(i corev1.LoadBalancerIngress) bool {
			return slices.Contains(held, is6(i)) != kept
		})
	}
	ingress, first := slices.Concat(of(st.After, false), of(st.Service, true)), allocator.Families(st.Service)[0]
	after.Status.LoadBalancer.Ingress = slices.Concat( // in the order of its families
		slices.DeleteFunc(slices.Clone(ingress), func(i corev1.LoadBalancerIngress) bool { return is6(i) != first }),
		slices.DeleteFunc(slices.Clone(ingress), func(i corev1.LoadBalancerIngress) bool { return is6(i) == first }),
	)
	kept := &evaluation.Status{Service: st.Service, After: after, Held: true, Problem: st.Problem}
	if _, asks := st.After.Annotations[v1alpha1.ReassignAnnotation]; !asks && !slices.Equal(ingressOf(st.Service), ingressOf(after)) {
		delete(after.Annotations, v1alpha1.ReassignAnnotation)
		kept.Note = st.Note
	}
	return kept
}
