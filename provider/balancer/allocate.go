package balancer

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/finding"
)

// allocation is a plan that is being made.
type allocation struct {
	*snapshot
	plan
	order    []*assignment
	reserved map[types.NamespacedName][]netip.Addr // in quarantine
}

// allocate plans who has which address. What is claimed stays; then Services get what they had according to their
// annotations and status, first those of which both say so, then what they ask for, and only then anything new. It is a
// function of the snapshot alone: a plan that was carried out in part, and is made again, has the same end.
func allocate(s *snapshot) *plan {
	a := &allocation{snapshot: s, plan: plan{
		claims: map[netip.Addr]*claim{}, services: map[types.NamespacedName]*assignment{},
	}, reserved: map[types.NamespacedName][]netip.Addr{}}
	a.begin()
	a.keep()
	a.each(a.restore)
	for _, as := range a.order {
		as.nodeIP = as.nodeIP || len(a.pools) == 0 && len(as.by) == 0 && len(as.request.addresses) == 0 && as.request.pool == "" &&
			as.problem == nil
	}
	a.each(a.restoreReserved, a.adoptAnnotation, a.adoptStatus)
	for _, as := range a.order {
		as.moot = as.request.reassign && !as.knowsAddress()
		as.request.reassign = as.request.reassign && !as.moot
	}
	a.each(a.restoreReserved, a.giveRequested, a.choose) // what is kept for a Service is for one that asked in vain, too
	for _, as := range a.order {
		a.allOrNone(as)
	}
	a.settle()
	return &a.plan
}

// each takes one step after the other for every family of every Service that may have claims.
func (a *allocation) each(steps ...func(*assignment, bool)) {
	for _, step := range steps {
		for _, as := range a.order {
			if as.nodeIP {
				continue
			}
			for _, ipv6 := range families6(as.service) {
				step(as, ipv6)
			}
		}
	}
}

// begin sorts Services by age, so that the older one wins.
func (a *allocation) begin() {
	for _, service := range a.known {
		if !served(service) {
			continue
		}
		as := &assignment{service: service, by: map[bool]netip.Addr{}}
		var problem *finding.Finding
		if as.request, problem = requestOf(service); problem != nil {
			as.fail(problem)
		}
		as.nodeIP = as.request.nodeIP
		a.services[nameOf(service)] = as
		a.order = append(a.order, as)
	}
	slices.SortFunc(a.order, older)
}

// older orders Services by age.
func older(x, y *assignment) int {
	return cmp.Or(x.service.CreationTimestamp.Compare(y.service.CreationTimestamp.Time),
		cmp.Compare(nameOf(x.service).String(), nameOf(y.service).String()))
}

// keep leaves claims with their owners, as long as these want them.
func (a *allocation) keep() {
	var list []*claim
	for _, c := range a.present {
		c = c.copied()
		if a.plane.Has(c.address) {
			a.drop = append(a.drop, c)
			continue
		}
		list = append(list, c)
		a.claims[c.address] = c
	}
	// Of two claims for one Service, as a crash within a move leaves them, that which it asks for stays, then the older.
	slices.SortFunc(list, func(x, y *claim) int {
		return cmp.Or(cmp.Compare(a.rank(x), a.rank(y)), x.object.CreationTimestamp.Compare(y.object.CreationTimestamp.Time),
			x.address.Compare(y.address))
	})
	for _, c := range list {
		if c.released.After(a.now) { // by a clock that was ahead
			c.released = a.now.Truncate(time.Second)
		}
		if !c.released.IsZero() {
			for _, owner := range c.owners {
				a.reserved[owner] = append(a.reserved[owner], c.address)
			}
			continue
		}
		for _, owner := range slices.Clone(c.owners) {
			as := a.services[owner]
			if as == nil || !a.keeps(as, c) {
				a.leave(c, owner)
			} else {
				as.by[c.address.Is6()] = c.address
			}
		}
	}
}

func (a *allocation) rank(c *claim) int {
	for _, owner := range c.owners {
		if as := a.services[owner]; as != nil && slices.Contains(as.request.addresses, c.address) {
			return 0
		}
	}
	return 1
}

// keeps says whether the Service still wants the claim, and gets on with the owners before it.
func (a *allocation) keeps(as *assignment, c *claim) bool {
	_, already := as.by[c.address.Is6()]
	if as.nodeIP || already || !slices.Contains(families6(as.service), c.address.Is6()) {
		return false
	}
	for _, other := range c.owners {
		if other == nameOf(as.service) {
			return true
		}
		if peer := a.services[other]; peer != nil {
			if err := mayShare(as.service, peer.service); err != nil {
				as.fail(finding.SharingConflict.Errorf("share %s: %w", c.address, err))
				return false
			}
		}
	}
	return true
}

// leave takes an owner from a claim. The last one is who it is kept for.
func (a *allocation) leave(c *claim, owner types.NamespacedName) {
	if as := a.services[owner]; as != nil && as.by[c.address.Is6()] == c.address {
		delete(as.by, c.address.Is6())
	}
	if len(c.owners) > 1 {
		c.owners = slices.DeleteFunc(c.owners, func(o types.NamespacedName) bool { return o == owner })
		return
	}
	c.released, c.probed = a.now.Truncate(time.Second), time.Time{}
}

// allOrNone gives back what is new to a Service that does not get all of its families.
func (a *allocation) allOrNone(as *assignment) {
	if len(as.addresses()) > 0 {
		return
	}
	name := nameOf(as.service)
	for ipv6, address := range as.by {
		c := a.claims[address]
		var before *claim
		if c.object != nil {
			before, _ = parseClaim(c.object)
		}
		switch {
		case before != nil && before.released.IsZero() && before.has(name):
			continue // it has had it before
		case len(c.owners) > 1:
			a.leave(c, name)
		case before != nil:
			*c = *before
		default:
			delete(a.claims, address)
		}
		delete(as.by, ipv6)
	}
}

// settle ends quarantines, and fills in what follows from the rest.
func (a *allocation) settle() {
	for address, c := range a.claims {
		p := poolOf(a.pools, address)
		if !c.live() {
			end := c.released.Add(p.reuseAfter())
			if a.lingering[address] {
				continue
			}
			if len(c.owners) == 0 || !end.After(a.now) {
				delete(a.claims, address)
				a.drop = append(a.drop, c)
			} else if a.wake.IsZero() || end.Before(a.wake) {
				a.wake = end
			}
			continue
		}
		if p != nil && (p.Name == c.pool || !a.named(c)) {
			c.pool, c.level = p.Name, p.level(c.level, a.peers)
		}
		if c.probed.IsZero() && c.object != nil && a.announced[address] {
			c.probed = a.now
		}
	}
}

// named says that a Service asks for the claim's pool: the claim is of that pool also when others have the address now,
// so that an edit of pools does not look like a Service which asks for another one.
func (a *allocation) named(c *claim) bool {
	return c.pool != "" && slices.ContainsFunc(c.owners, func(owner types.NamespacedName) bool {
		return a.services[owner] != nil && a.services[owner].request.pool == c.pool
	})
}

// poolOf returns the pool that has the address; rather one that gives.
func poolOf(pools []*pool, address netip.Addr) *pool {
	var found *pool
	for _, p := range pools {
		if p.set.Contains(address) && (found == nil || !found.gives() && p.gives()) {
			found = p
		}
	}
	return found
}
