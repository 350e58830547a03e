package externalips

import (
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

// try asks the allocator twice: with the pools, which a Service that waits may use first, and then with the moved Services. It
// blocks those that would not get their addresses, and reports whether there are any.
func (p *planner) try() bool {
	pools := p.all()
	before := allocator.Allocate(p.snapshot(pools, p.present, nil))
	var present []*allocator.Claim
	for _, claim := range before.Claims {
		if parsed, ours := allocator.ParseClaim(claim.Render()); ours {
			present = append(present, parsed)
		}
	}
	moved := map[string]*corev1.Service{}
	for _, c := range p.candidates {
		if c.moves() {
			moved[c.Service.Service] = c.moved()
		}
	}
	after := allocator.Allocate(p.snapshot(pools, present, moved))
	blocked := false
	for _, c := range p.candidates {
		if !c.moves() {
			continue
		}
		as := after.Services[allocator.NameOf(c.object)]
		if as == nil {
			continue // it is served by none: judged before
		}
		if got := as.Addresses(); !sameAddresses(got, c.wanted) || as.Problem != nil {
			c.refuse(as, got)
			blocked = true
		}
	}
	return blocked
}

// Allocate asks the allocator who would have which address with the pools that there are, if some Services, by NAMESPACE/NAME, were
// other ones.
func (r *Cluster) Allocate(replaced map[string]*corev1.Service) *allocator.Plan {
	p := &planner{ground: newGround(r)}
	return allocator.Allocate(p.snapshot(p.pools, p.present, replaced))
}

// refuse says why the Service would not get its addresses.
func (c *candidate) refuse(as *allocator.Assignment, got []netip.Addr) {
	switch {
	case as.Problem != nil:
		c.block(as.Problem.Reason+": "+as.Problem.Message, as.Problem.Do)
	case as.NodeIP:
		c.block("annotation "+v1alpha1.LevelAnnotation+" requests addresses of Nodes", "remove the annotation")
	default:
		c.block("it would get "+texts(got), "request the addresses in annotation "+v1alpha1.AddressesAnnotation)
	}
}

func (p *planner) snapshot(pools []*allocator.Pool, present []*allocator.Claim, moved map[string]*corev1.Service) *allocator.Snapshot {
	s := &allocator.Snapshot{
		Now: p.cluster.Now, Known: p.known(moved), Present: present, Pools: pools, Peers: len(p.cluster.Peers) > 0,
		Namespaces: p.namespaces, Conflicts: p.conflicts, Lingering: map[netip.Addr]bool{}, Nodes: p.nodeAddresses(), Plane: p.plane,
	}
	for _, object := range s.Known {
		s.Note(object)
	}
	return s
}

// moved is the Service after the first command.
func (c *candidate) moved() *corev1.Service {
	object := c.object.DeepCopy()
	object.Spec.Type = corev1.ServiceTypeLoadBalancer
	for key, value := range c.patched() {
		metav1.SetMetaDataAnnotation(&object.ObjectMeta, key, value)
	}
	return object
}

// patched are the annotations that the first command sets.
func (c *candidate) patched() map[string]string {
	all := map[string]string{v1alpha1.AddressesAnnotation: texts(c.wanted)}
	maps.Copy(all, c.annotations)
	return all
}

func sameAddresses(a, b []netip.Addr) bool {
	return slices.Equal(slices.SortedFunc(slices.Values(a), netip.Addr.Compare), slices.SortedFunc(slices.Values(b), netip.Addr.Compare))
}
