package lbmove

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

// checkKind reports whether the Service is one that the cloud-controller-manager serves.
func (p *planner) checkKind(s *corev1.Service, name types.NamespacedName) bool {
	before := len(p.Checks)
	switch {
	case s == nil:
		p.fail(false, "ccmadm lb list shows them", "Service/%s does not exist", name)
	case s.Spec.Type != corev1.ServiceTypeLoadBalancer:
		p.fail(false, fmt.Sprintf(`kubectl -n %s patch service %s -p '{"spec":{"type":"LoadBalancer"}}'`, name.Namespace, name.Name),
			"Service/%s is of type %s, not LoadBalancer", name, s.Spec.Type)
	case s.DeletionTimestamp != nil:
		p.fail(false, "create it again first", "Service/%s is being deleted", name)
	case !allocator.Served(s):
		p.fail(false, "an address moves between Services of class "+v1alpha1.LoadBalancerClass+" or of none",
			"Service/%s is of class %s, which another program serves", name, ptr.Deref(s.Spec.LoadBalancerClass, ""))
	}
	return len(p.Checks) == before
}

// checkAddress says why OLD has nothing to move.
func (p *planner) checkAddress() {
	published := allocator.Earlier(p.old, true)
	switch {
	case len(published) == 0:
		p.fail(false, "ccmadm lb why "+p.Old+" shows the cause", "Service/%s has no address", p.Old)
	default:
		p.fail(false, "only addresses of AddressPools move; see ccmadm lb why "+p.Old,
			"Service/%s has %s, which ccmadm did not assign from an AddressPool", p.Old, join(published))
	}
}

// check finds what is against the move, apart from the rules of the allocator.
func (p *planner) check() {
	p.checkFamilies()
	p.checkShared()
	p.checkOthers()
	p.checkEndpoints()
	p.checkSources()
	var missing []string
	for _, port := range p.old.Spec.Ports {
		if !slices.ContainsFunc(p.next.Spec.Ports, func(q corev1.ServicePort) bool { return q.Port == port.Port && q.Protocol == port.Protocol }) {
			missing = append(missing, fmt.Sprintf("%d/%s", port.Port, port.Protocol))
		}
	}
	if len(missing) > 0 {
		p.fail(true, "add the ports to Service/"+p.New, "Service/%s has no port %s, so clients of Service/%s would be refused",
			p.New, strings.Join(missing, ", "), p.Old)
	}
}

// checkSources finds an address that only some clients may use, and that more would then. kube-proxy limits each family by itself.
func (p *planner) checkSources() {
	meant := sources(p.old)
	for _, address := range p.addresses {
		other := func(prefix netip.Prefix) bool { return prefix.Addr().Is6() != address.Is6() }
		before := slices.DeleteFunc(slices.Clone(meant), other)
		// The annotation says what OLD's clients were meant to be. It does not keep anybody from NEW.
		after := slices.DeleteFunc(allocator.Prefixes(p.next.Spec.LoadBalancerSourceRanges), other)
		if len(before) == 0 {
			continue
		}
		outside := slices.DeleteFunc(slices.Clone(after), func(prefix netip.Prefix) bool {
			return slices.ContainsFunc(before, func(b netip.Prefix) bool { return b.Bits() <= prefix.Bits() && b.Contains(prefix.Addr()) })
		})
		if len(after) > 0 && len(outside) == 0 {
			continue
		}
		p.fail(true, "set spec.loadBalancerSourceRanges of Service/"+p.New, "Service/%s lets in only %s, and Service/%s would let in %s", p.Old,
			join(before), p.New, cmp.Or(join(outside), fmt.Sprintf("all %s clients", allocator.FamilyName(address.Is6()))))
	}
}

// sources are the clients that the Service was meant to let in; none: all.
func sources(s *corev1.Service) []netip.Prefix {
	if texts := s.Spec.LoadBalancerSourceRanges; len(texts) > 0 {
		return allocator.Prefixes(listed(strings.Join(texts, ",")))
	}
	return allocator.Prefixes(listed(s.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey]))
}

func (p *planner) checkFamilies() {
	for _, address := range p.addresses {
		if !slices.Contains(allocator.Families(p.next), address.Is6()) {
			p.fail(false, fmt.Sprintf("kubectl -n %s patch service %s -p '{\"spec\":{\"ipFamilyPolicy\":\"RequireDualStack\"}}'",
				p.next.Namespace, p.next.Name), "Service/%s has ipFamilies %v, and %s is %s", p.New, p.next.Spec.IPFamilies, address,
				allocator.FamilyName(address.Is6()))
		}
	}
}

// checkShared is about third Services, which do not move.
func (p *planner) checkShared() {
	for _, address := range p.addresses {
		c := p.claim(address)
		if c == nil {
			continue
		}
		if c.Has(p.oldName) && c.Has(p.name) {
			p.fail(false, "delete Service/"+p.Old+", or remove its annotation "+v1alpha1.ShareKeyAnnotation,
				"Service/%s and Service/%s share %s already", p.Old, p.New, address)
		}
		if third := others(c, p.oldName, p.name); third != "" {
			p.fail(true, "with --force they keep the address, and share it with Service/"+p.New,
				"%s is shared with %s, which would not move", address, third)
		}
	}
	for _, address := range allocator.Earlier(p.next, true) {
		c := p.claim(address)
		if c == nil || slices.Contains(p.addresses, address) || !slices.ContainsFunc(p.addresses, sameFamily(address)) {
			continue
		}
		if third := others(c, p.name); third != "" {
			p.fail(true, "with --force they keep the address, and Service/"+p.New+" leaves it",
				"Service/%s shares its present address %s with %s", p.New, address, third)
		} else {
			p.Notes = append(p.Notes, fmt.Sprintf("Service/%s gives up its present address %s", p.New, address))
		}
	}
}

func sameFamily(address netip.Addr) func(netip.Addr) bool {
	return func(other netip.Addr) bool { return other.Is6() == address.Is6() }
}

// others are the owners but these.
func others(c *allocator.Claim, these ...types.NamespacedName) string {
	var list []string
	for _, owner := range c.Owners {
		if !slices.Contains(these, owner) {
			list = append(list, "Service/"+owner.String())
		}
	}
	return strings.Join(list, ", ")
}

// checkOthers finds another move, and another address that NEW is to have.
func (p *planner) checkOthers() {
	for _, m := range allocator.MovesOf(p.old) {
		c := p.claim(m.Address)
		if slices.Contains(p.addresses, m.Address) && m.To != p.name && c != nil && c.Has(p.oldName) {
			p.fail(true, "wait for that move, or take it back: kubectl -n "+p.old.Namespace+" annotate service "+p.old.Name+" "+
				v1alpha1.MoveToAnnotation+"-", "%s is about to move from Service/%s to Service/%s", m.Address, p.Old, m.To)
		}
	}
	for _, address := range p.now.Services[p.name].Request.Addresses() {
		if slices.Contains(p.addresses, address) || !slices.ContainsFunc(p.addresses, sameFamily(address)) ||
			p.now.Services[p.name].Request.GivesAway(address) {
			continue
		}
		p.fail(true, "remove the request from Service/"+p.New+"; --force replaces it", "Service/%s requests another address, %s (%s)",
			p.New, address, p.requestedBy())
	}
}

// requestedBy names what asks for NEW's address.
func (p *planner) requestedBy() string {
	for _, key := range allocator.AddressAnnotations() {
		if p.next.Annotations[key] != "" {
			return "annotation " + key
		}
	}
	return "spec.loadBalancerIP"
}

func (p *planner) checkEndpoints() {
	ready := 0
	for _, slice := range p.slices {
		for _, endpoint := range slice.Endpoints {
			if ptr.Deref(endpoint.Conditions.Ready, true) {
				ready++
			}
		}
	}
	if ready == 0 {
		p.fail(true, "start its pods: kubectl -n "+p.next.Namespace+" get endpointslices -l kubernetes.io/service-name="+p.next.Name,
			"Service/%s has no ready endpoint", p.New)
	}
	if p.next.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
		p.Notes = append(p.Notes, "externalTrafficPolicy of Service/"+p.New+" is Local: a Node without an endpoint of it announces the address "+
			"no more, and another Node takes over")
	}
}

// try asks the allocator what both Services would have.
func (p *planner) try() {
	after := p.cluster.Allocate(map[string]*corev1.Service{p.Old: p.changed(p.old), p.New: p.changed(p.next)})
	got, left := after.Services[p.name], after.Services[p.oldName]
	for _, address := range p.addresses {
		if got.By[address.Is6()] == address {
			continue
		}
		switch {
		case got.NodeIP:
			p.fail(false, "remove the annotation", "Service/%s has annotation %s: %s", p.New, v1alpha1.LevelAnnotation, v1alpha1.LevelNodeIP)
		case got.Problem != nil:
			p.fail(false, got.Problem.Do, "the cloud-controller-manager would not move %s: %s: %s", address, got.Problem.Reason, got.Problem.Message)
		default:
			p.fail(false, "ccmadm lb why "+p.New, "the cloud-controller-manager would not move %s", address)
		}
		return
	}
	if list := left.Addresses(); len(list) > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("Service/%s gets another address, such as %s", p.Old, join(list)))
	} else {
		p.Notes = append(p.Notes, fmt.Sprintf("Service/%s has no address then: no pool has another one for it", p.Old))
	}
}

// refused is the error of a plan with checks that failed; nil: it can be carried out. Wrote says that this run has changed OLD already.
func (p *Plan) refused(force, wrote bool) error {
	failed, hard := 0, 0
	for _, c := range p.Checks {
		switch {
		case !c.Force:
			hard++
			failed++
		case !force:
			failed++
		}
	}
	if failed == 0 {
		return nil
	}
	const again = "do what the checks say, then run the same command again"
	what := fmt.Sprintf("move the address of Service/%s to Service/%s: %s failed", p.Old, p.New, finding.Count(failed, "check"))
	if wrote {
		return finding.Preflightf("%s after annotation %s was set on Service/%s", what, v1alpha1.MoveToAnnotation, p.Old).
			WithHint("%s, which goes on; %s", again, p.takeBack())
	}
	e := finding.Preflightf("%s, and nothing was changed", what)
	if hard == 0 {
		return e.WithHint("do what the checks say, or use --force")
	}
	return e.WithHint("%s", again)
}
