package balancer

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/balancer/evaluation"
)

// held are the families of which a Service keeps what its status has until the next pass, since a claim or a Service before it was not
// written: with kube-proxy the one that loses an address keeps it until the other has it, otherwise the other one waits until it is free.
// Those after one that is held are held as well: in a chain of moves the last one would lose an address that is in no other status yet.
func (w *written) held(o *order, st *evaluation.Status) []bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := allocator.NameOf(st.Service)
	var held []bool
	for _, ipv6 := range []bool{false, true} {
		of := family{name, ipv6}
		waits := slices.ContainsFunc(o.moves[of], func(other types.NamespacedName) bool {
			of := family{other, ipv6}
			return w.waits[of] || w.unclaimed[of] || w.failed[other] && (o.overlap || !w.withdrawn[other])
		})
		if waits || w.failed[name] || w.unclaimed[of] {
			held = append(held, ipv6)
		}
	}
	if len(held) == 1 && isHalf(st, held[0]) {
		held = []bool{false, true}
	}
	for _, ipv6 := range held {
		w.waits[family{name, ipv6}] = true
	}
	return held
}

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

// keep notes what is written of a Service that is held.
func (w *written) keep(name types.NamespacedName, st *evaluation.Status) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept[name] = st
}
