package lbmove

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/externalips"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

// State is how far a move has come.
type State string

// A move that is UnderWay has its annotations, and waits for the cloud-controller-manager.
const (
	Planned  State = "Planned"
	UnderWay State = "UnderWay"
	Moved    State = "Moved"
)

// Plan is what to do, and what is against it.
type Plan struct {
	// Old and New are NAMESPACE/NAME.
	Old       string   `json:"old"`
	New       string   `json:"new"`
	Addresses []string `json:"addresses"`
	State     State    `json:"state"`
	Changes   []Change `json:"changes,omitempty"`
	Checks    []Check  `json:"failedChecks,omitempty"`
	Notes     []string `json:"notes,omitempty"`

	addresses []netip.Addr
	old, next *corev1.Service
}

// Change is an annotation to set, or to remove if it is to be empty.
type Change struct {
	Service    string `json:"service"`
	Annotation string `json:"annotation"`
	Before     string `json:"before,omitempty"`
	After      string `json:"after,omitempty"`
}

// Check is one that failed.
type Check struct {
	Message string `json:"message"`
	Do      string `json:"do"`
	// Force says that --force skips it.
	Force bool `json:"force"`
}

// planner makes a plan.
type planner struct {
	*Plan
	cluster       *externalips.Cluster
	slices        []discoveryv1.EndpointSlice
	oldName, name types.NamespacedName
	now           *allocator.Plan
}

func newPlan(cluster *externalips.Cluster, slices []discoveryv1.EndpointSlice, old, next types.NamespacedName) *Plan {
	p := &planner{Plan: &Plan{Old: old.String(), New: next.String(), State: Planned}, cluster: cluster, slices: slices, oldName: old, name: next}
	for i := range cluster.Services {
		switch s := &cluster.Services[i]; allocator.NameOf(s) {
		case old:
			p.old = s
		case next:
			p.next = s
		}
	}
	if p.released() {
		return p.Plan
	}
	oldServed, nextServed := p.checkKind(p.old, old), p.checkKind(p.next, next)
	if !oldServed || !nextServed {
		return p.Plan
	}
	p.now = cluster.Allocate(nil)
	p.find()
	if len(p.addresses) == 0 {
		p.checkAddress()
		return p.Plan
	}
	p.change()
	p.judgeState()
	if p.State != Moved {
		p.check()
		p.try()
	}
	return p.Plan
}

// fail adds a check that failed. It may quote what tenants wrote.
func (p *planner) fail(force bool, do, format string, args ...any) {
	p.Checks = append(p.Checks, Check{Message: finding.Clean(fmt.Sprintf(format, args...)), Do: finding.Clean(do), Force: force})
}

// released finds a move that is done, and whose OLD was changed to another type after it.
func (p *planner) released() bool {
	if p.old == nil || p.next == nil || p.old.Spec.Type == corev1.ServiceTypeLoadBalancer {
		return false
	}
	var given []netip.Addr
	for _, m := range allocator.MovesOf(p.old) {
		if c := p.claim(m.Address); m.To == p.name && c != nil && c.Has(p.name) { // not one that has gone on
			given = append(given, m.Address)
		}
	}
	if len(given) == 0 || !arrived(given, p.old, p.next) {
		return false
	}
	p.mean(given)
	p.State = Moved
	return true
}

// mean notes which addresses the plan is about.
func (p *Plan) mean(addresses []netip.Addr) {
	p.addresses = addresses
	for _, address := range addresses {
		p.Addresses = append(p.Addresses, address.String())
	}
}

// find tells which addresses are meant: those of a move that has begun or is done, and of a family without any, those of OLD.
func (p *planner) find() {
	var begun, rest []netip.Addr
	for _, m := range allocator.MovesOf(p.old) {
		c := p.claim(m.Address)
		if m.To == p.name && c != nil && (c.Has(p.name) || c.Has(p.oldName)) && p.asks(m.Address) {
			begun = append(begun, m.Address)
		}
	}
	for _, address := range allocator.Earlier(p.old, true) {
		if c := p.claim(address); c != nil && c.Has(p.oldName) && !slices.ContainsFunc(begun, sameFamily(address)) {
			rest = append(rest, address)
		}
	}
	p.mean(slices.Concat(begun, rest))
}

// asks reports whether NEW asks for the address by now.
func (p *planner) asks(address netip.Addr) bool {
	return slices.Contains(p.now.Services[p.name].Request.Addresses(), address)
}

// claim is who has the address, as the objects say; nil: it has no owner.
func (p *planner) claim(address netip.Addr) *allocator.Claim {
	for i := range p.cluster.Claims {
		c, ours := allocator.ParseClaim(&p.cluster.Claims[i])
		if ours && c.Address == address && c.Live() {
			return c
		}
	}
	return nil
}

// owns reports whether OLD has an address, or has had it and may have it back: until then what it allows holds.
func (p *planner) owns(address netip.Addr) bool {
	return slices.ContainsFunc(p.cluster.Claims, func(object networkingv1.IPAddress) bool {
		c, ours := allocator.ParseClaim(&object)
		return ours && c.Address == address && c.Has(p.oldName)
	})
}

// change finds the annotations that differ.
func (p *planner) change() {
	given := allocator.MovesOf(p.old)
	if !p.gives(given) {
		given = slices.DeleteFunc(without(given, p.addresses), func(m v1alpha1.Move) bool { // what went earlier fills the list no longer
			return !p.owns(m.Address) && !slices.Contains(p.now.Services[p.oldName].Request.Addresses(), m.Address)
		})
		for _, address := range p.addresses {
			given = append(given, v1alpha1.Move{Address: address, To: p.name})
		}
	}
	p.set(p.old, v1alpha1.MoveToAnnotation, join(given))
	p.set(p.next, v1alpha1.MoveToAnnotation, join(without(allocator.MovesOf(p.next), p.addresses)))
	asked := slices.Clone(p.addresses)
	for _, address := range p.now.Services[p.name].Request.Addresses() {
		if !slices.ContainsFunc(p.addresses, sameFamily(address)) {
			asked = append(asked, address) // of the other family
		}
	}
	p.set(p.next, v1alpha1.AddressesAnnotation, join(asked))
}

// gives reports whether OLD lets NEW have all of the addresses.
func (p *planner) gives(moves []v1alpha1.Move) bool {
	return !slices.ContainsFunc(p.addresses, func(address netip.Addr) bool {
		return !slices.Contains(moves, v1alpha1.Move{Address: address, To: p.name})
	})
}

func (p *planner) set(s *corev1.Service, annotation, value string) {
	before := s.Annotations[annotation]
	if same(before, value) {
		return
	}
	p.Changes = append(p.Changes, Change{Service: s.Namespace + "/" + s.Name, Annotation: annotation, Before: finding.Clean(before), After: value})
}

// same ignores spaces and the order.
func same(a, b string) bool {
	return slices.Equal(slices.Sorted(slices.Values(listed(a))), slices.Sorted(slices.Values(listed(b))))
}

// listed are the items of a list with commas or spaces between.
func listed(text string) []string {
	return strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ' ' })
}

// judgeState tells a new move from one that has begun, or is done.
func (p *planner) judgeState() {
	switch {
	case len(p.Changes) > 0:
	case arrived(p.addresses, p.old, p.next):
		p.State = Moved
	default:
		p.State = UnderWay
	}
}

// arrived reports whether NEW has all of the addresses, and OLD none of them.
func arrived(addresses []netip.Addr, old, next *corev1.Service) bool {
	before, after := allocator.Earlier(old, true), allocator.Earlier(next, true)
	for _, address := range addresses {
		if slices.Contains(before, address) || !slices.Contains(after, address) {
			return false
		}
	}
	return true
}

// changed is a Service with the annotations of the plan.
func (p *Plan) changed(s *corev1.Service) *corev1.Service {
	after := s.DeepCopy()
	for _, c := range p.Changes {
		switch {
		case c.Service != s.Namespace+"/"+s.Name:
		case c.After == "":
			delete(after.Annotations, c.Annotation)
		default:
			metav1.SetMetaDataAnnotation(&after.ObjectMeta, c.Annotation, c.After)
		}
	}
	return after
}

func without(moves []v1alpha1.Move, addresses []netip.Addr) []v1alpha1.Move {
	return slices.DeleteFunc(moves, func(m v1alpha1.Move) bool { return slices.Contains(addresses, m.Address) })
}

func join[T fmt.Stringer](list []T) string {
	var texts []string
	for _, item := range list {
		texts = append(texts, item.String())
	}
	return strings.Join(texts, ",")
}
