package allocator

import (
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
