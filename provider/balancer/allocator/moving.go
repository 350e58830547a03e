package allocator

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// MovesOf are the addresses which the Service lets others take over; none where its list is malformed.
func MovesOf(service *corev1.Service) []v1alpha1.Move {
	moves, err := v1alpha1.ParseMoveTo(service.Annotations[v1alpha1.MoveToAnnotation])
	if err != nil {
		return nil
	}
	return moves
}

// GivesAway reports whether the Service lets another one take over the address, whichever.
func (r Request) GivesAway(address netip.Addr) bool {
	return slices.ContainsFunc(r.moves, func(m v1alpha1.Move) bool { return m.Address == address })
}

// wanted is what the Service asks for, except what it gave away: it does not insist on that as long as another one has it.
func (a *allocation) wanted(as *Assignment, ipv6 bool) (netip.Addr, bool) {
	address, asks := as.Request.of(ipv6)
	if asks && a.gaveAway(as, address) {
		return netip.Addr{}, false
	}
	return address, asks
}

// gaveAway reports whether the Service lets others take over the address, and another one has it.
func (a *allocation) gaveAway(as *Assignment, address netip.Addr) bool {
	c := a.Claims[address]
	return as.Request.GivesAway(address) && c != nil && c.Live() && !c.Has(NameOf(as.Service))
}

// mayRevive reports whether the Service gets a claim that is kept for its last owner: it is that owner, or the owner has left it for
// another address, perhaps in this pass, and lets the Service have it.
func (a *allocation) mayRevive(as *Assignment, c *Claim) bool {
	if c.Has(NameOf(as.Service)) {
		return true
	}
	return slices.ContainsFunc(c.Owners, func(owner types.NamespacedName) bool {
		other := a.Services[owner]
		return other != nil && other.movesTo(as, c.Address)
	})
}

// revive gives the Service a claim that is kept for its last owner. What was left in this pass is announced all the time.
func (c *Claim) revive(owner types.NamespacedName) {
	c.Owners, c.Released = []types.NamespacedName{owner}, time.Time{}
	if c.Object == nil {
		return
	}
	if before, ours := ParseClaim(c.Object); ours && before.Live() {
		c.Probed = before.Probed
	}
}

// movesTo reports whether both sides want the other one to take the address over: the owner names it, and it asks for the address.
// One that gives the address away itself takes it from no other, so that no address goes round in a circle.
func (as *Assignment) movesTo(other *Assignment, address netip.Addr) bool {
	asked, asks := other.Request.of(address.Is6())
	return asks && asked == address && !other.Request.GivesAway(address) &&
		slices.Contains(as.Request.moves, v1alpha1.Move{Address: address, To: NameOf(other.Service)})
}

// leaver is the owner of a claim from which the Service takes the address over, nil: it joins all of them; or why it cannot have the
// address.
func (a *allocation) leaver(as *Assignment, c *Claim) (*Assignment, *finding.Finding) {
	var from *Assignment
	for _, owner := range c.Owners {
		other := a.Services[owner]
		if from == nil && other.movesTo(as, c.Address) {
			from = other
		} else if problem := a.shareWith(as, owner, c.Address); problem != nil {
			return nil, problem
		}
	}
	if from != nil && c.Probed.IsZero() && c.Level.OnLink() {
		return nil, finding.AddressInUse.Errorf("%s stays with Service/%s until an agent has announced it", c.Address, NameOf(from.Service))
	}
	return from, nil
}

// takeOver gives the Service the place of one of the owners. It is one write of the claim, so that agents announce the address all
// the time. Where the Service could not be published with it at once, the former owner would have lost it for nothing: one that wants all
// of its families or none takes none over before it can have all.
func (a *allocation) takeOver(as, from *Assignment, c *Claim) *finding.Finding {
	for _, ipv6 := range Families(as.Service) {
		if _, has := as.By[ipv6]; has || ipv6 == c.Address.Is6() || !NeedsAll(as.Service) {
			continue
		}
		if address, asks := a.wanted(as, ipv6); !asks || !a.couldHave(as, address) {
			return finding.NoSuchFamily.Errorf("%s stays with Service/%s until this Service can have an %s address, too: its ipFamilyPolicy "+
				"requires both", c.Address, NameOf(from.Service), FamilyName(ipv6))
		}
	}
	c.Owners[slices.Index(c.Owners, NameOf(from.Service))] = NameOf(as.Service)
	delete(from.By, c.Address.Is6())
	return nil
}

// couldHave reports whether the Service would get an address that it asks for.
func (a *allocation) couldHave(as *Assignment, address netip.Addr) bool {
	c := a.Claims[address]
	switch {
	case a.mayTake(as, address) != nil, a.Conflicts[address]:
		return false
	case c == nil:
		p := PoolOf(a.Pools, address)
		return p.Spec.IPAM == nil || a.Leases[LeaseKey{p.Name, as.Service.UID, address.Is6()}].Address == address
	case a.ending(c):
		return false
	case !c.Live():
		return a.mayRevive(as, c)
	}
	_, problem := a.leaver(as, c)
	return problem == nil
}

// Concerned are the owners of the claim, and those that its object has, who lose it.
func (c *Claim) Concerned() []types.NamespacedName {
	all := slices.Clone(c.Owners)
	if c.Object == nil {
		return all
	}
	if before, ours := ParseClaim(c.Object); ours {
		all = append(all, before.Owners...)
	}
	return all
}

// completeRequests puts the prefix of a pool before the host parts that Services ask for. Of pools with the same one it is that which the
// Service has its address from: a pool that is added moves none.
func (a *allocation) completeRequests() {
	if !slices.ContainsFunc(a.Pools, func(p *Pool) bool { return p.Spec.DynamicPrefix != nil }) {
		return
	}
	had := map[types.NamespacedName][]*Claim{}
	for _, c := range slices.SortedFunc(slices.Values(a.Present), olderClaim) {
		for _, owner := range c.Owners {
			if c.Live() && c.Address.Is6() {
				had[owner] = append(had[owner], c)
			}
		}
	}
	for _, as := range a.order {
		if len(as.Request.addresses) == 0 {
			continue
		}
		claims := slices.Concat(had[NameOf(as.Service)], as.lostClaims(a.Snapshot))
		for i, part := range as.Request.addresses {
			next, problem := as.completed(a.Snapshot, claims, part)
			if as.Request.addresses[i] = next; problem != nil {
				as.fail(problem)
			}
		}
	}
}

// completed is the address for what a Service asks for, which stays where that is no host part.
func (as *Assignment) completed(s *Snapshot, had []*Claim, part netip.Addr) (netip.Addr, *finding.Finding) {
	if !part.Is6() {
		return part, nil
	}
	for _, c := range had {
		p := poolNamed(s.Pools, c.Pool)
		if p == nil || p.Spec.DynamicPrefix == nil || as.Request.Pool != "" && as.Request.Pool != p.Name {
			continue
		}
		length := int(p.Spec.DynamicPrefix.Length)
		if next, ok := p.under(part); ok && hostPart(part, length) == part {
			return next, nil
		}
		if hostPart(c.Address, length) == part { // the pool does not have it any more, or does not know its prefix
			return c.Address, nil
		}
	}
	var best *Pool
	var problem *finding.Finding
	first, earlier := part, Earlier(as.Service, false)
	for _, p := range s.Pools {
		if p.hosts == nil || !p.hosts.Contains(part) || !as.mayBeOf(p, s) {
			continue
		}
		next, ok := p.under(part)
		switch err := p.LacksPrefix(); {
		case ok && slices.Contains(earlier, next): // its claim was lost
			return next, nil
		case ok && (best == nil || !best.gives() && p.gives()):
			best, first = p, next
		case err != nil && p.gives() && problem == nil:
			problem = finding.PoolNotReady.Errorf("AddressPool/%s does not give %s: %w", p.Name, part, err)
		}
	}
	if best != nil && best.gives() {
		return first, nil
	}
	return first, problem
}

// present has the present prefix of a pool in addresses that are in no pool any more: claims may be lost while the prefix changes.
func (as *Assignment) present(s *Snapshot, list []netip.Addr) []netip.Addr {
	for i, address := range list {
		if PoolOf(s.Pools, address) != nil {
			continue
		}
		for _, p := range s.Pools {
			if next, ok := p.under(address); ok && as.mayBeOf(p, s) {
				list[i] = next
				break
			}
		}
	}
	return list
}

func (as *Assignment) mayBeOf(p *Pool, s *Snapshot) bool {
	return (as.Request.Pool == "" || as.Request.Pool == p.Name) && p.serves(as.Service, s.Namespaces)
}

// successor is the address that replaces one of the Service: its host part under the prefix that the pool of the claim has now. A Service
// that asks for another address, or another pool, does not follow.
func (as *Assignment) successor(a *allocation, address netip.Addr) (netip.Addr, *Pool) {
	p := poolNamed(a.Pools, a.Claims[address].Pool)
	if p == nil || p.Set.Contains(address) || as.Request.Pool != "" && as.Request.Pool != p.Name {
		return netip.Addr{}, nil
	}
	next, ok := p.under(address)
	if wanted, asks := as.Request.of(true); !ok || asks && wanted != next {
		return netip.Addr{}, nil
	}
	return next, p
}

// keepsNext keeps the second claim of a Service whose address is about to be replaced, whichever of both is looked at first, unless it does
// not get on with the owners before it: those of the two claims may have come in another order.
func (as *Assignment) keepsNext(a *allocation, c *Claim) bool {
	address, has := as.By[true]
	if !has || !c.Address.Is6() {
		return false
	}
	if next, p := as.successor(a, address); p != nil && next == c.Address {
		if as.quarrel(a, c) != nil { // follow says why
			return false
		}
		as.Next = next
		return true
	}
	if next, p := as.successor(a, c.Address); p != nil && next == address && a.Claims[next].Probed.IsZero() {
		if problem := as.quarrel(a, c); problem != nil {
			as.fail(problem)
			return false
		}
		as.By[true], as.Next = c.Address, next
		return true
	}
	if as.publishedFirst(a, c.Address) && as.quarrel(a, c) == nil {
		as.goBack(a, address, c.Address)
		return true
	}
	return false
}

// follow gives a Service the same host part under the present prefix of its pool. That is claimed first. Once an agent announces it, or has
// done so, it replaces the other address, which is published until then.
func (as *Assignment) follow(a *allocation) {
	address, has := as.By[true]
	if !has {
		return
	}
	next, p := as.successor(a, address)
	switch {
	case p == nil:
		as.tellFollowed(a.Pools)
		return
	case as.Next != next:
		problem := a.takeOwn(as, next)
		as.By[true] = address
		if problem != nil {
			as.stays = problem
			return
		}
		if c := a.Claims[next]; c.Object == nil {
			c.Level = p.level(a.Claims[address].Level, a.Peers)
		}
		as.Next = next
	case a.Announced[next] || !a.Claims[next].Probed.IsZero():
		a.leave(a.Claims[address], NameOf(as.Service))
		a.give(as, next)
		as.Next = netip.Addr{}
		as.tellFollowed(a.Pools)
		return
	}
	as.Follows = fmt.Sprintf("the prefix of AddressPool/%s is now %s: %s replaces %s once an agent announces it", p.Name, p.prefix, next, address)
}

// tellKept puts before what is wrong with a Service the address that it has of a pool with prefixes all the same: if that comes under a former
// prefix, and its claim is lost, keptFrom reads whose it is.
func (as *Assignment) tellKept(a *allocation) {
	address, has := as.By[true]
	if as.Problem == nil || !has {
		return
	}
	p := poolNamed(a.Pools, a.Claims[address].Pool)
	if p == nil || !p.hasHost(address) {
		return
	}
	is := "not usable"
	if p.prefix.IsValid() {
		is = p.prefix.String()
	}
	if !p.Set.Contains(address) {
		is = "now " + is
	}
	as.Problem = as.Problem.ID.Errorf("the prefix of AddressPool/%s is %s: %s stays: %w", p.Name, is, address, as.Problem)
}

// tellFollowed says which address a Service has had that the present one replaces, until it was told.
func (as *Assignment) tellFollowed(pools []*Pool) {
	address := as.By[true]
	p := PoolOf(pools, address)
	if p == nil || !p.prefix.IsValid() {
		return
	}
	for _, before := range Earlier(as.Service, false) {
		if next, ok := p.under(before); ok && next == address && before != next {
			as.Followed = fmt.Sprintf("the prefix of AddressPool/%s is now %s: address %s became %s", p.Name, p.prefix, before, next)
		}
	}
}

// publishedFirst reports whether the address is published, and the one that the Service has instead is not: that has the same host part under
// another prefix, and was not announced yet. A Service that requests another pool than that of both does not go back.
func (as *Assignment) publishedFirst(a *allocation, address netip.Addr) bool {
	own, published := as.By[true], Earlier(as.Service, true)
	if as.Request.Pool != "" && as.Request.Pool != a.Claims[own].Pool {
		return false
	}
	return a.Claims[own].Probed.IsZero() && !a.Announced[own] && slices.Contains(published, address) && !slices.Contains(published, own) &&
		a.sameHost(own, address)
}

// goBack gives a Service the published address for the one that it has, of whose pool it is. That is left, unless it is to replace it.
func (as *Assignment) goBack(a *allocation, own, published netip.Addr) {
	if c := a.Claims[published]; c.Object == nil {
		c.Pool, c.Level = a.Claims[own].Pool, a.Claims[own].Level
	}
	a.give(as, published)
	next, p := as.successor(a, published)
	if p == nil || next != as.Next {
		as.Next = netip.Addr{}
	}
	if p != nil && next == own {
		as.Next = own
	} else {
		a.leave(a.Claims[own], NameOf(as.Service))
	}
}
