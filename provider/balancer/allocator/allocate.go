// Package allocator plans which Service has which address. It is pure: what the caches have is passed in as a [Snapshot].
//
// Start at [Allocate], which makes a [Plan]: claims to write, and an [Assignment] for each Service. request.go reads what a
// Service asks for, pools.go what AddressPools give, hosts.go and routers.go which addresses belong to machines, and take.go
// gives addresses.
//
// Reads: the snapshot. Writes: nothing.
// Running it twice: the same snapshot gives the same plan, and a plan that was carried out in part has the same end.
// It will not: talk to an API server, or read a clock.
package allocator

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/finding"
)

// Allocate plans who has which address. What is claimed stays; then Services get what they had according to their
// status and annotations, first those of which both say so, then what they ask for, and only then anything new. It is a
// function of the snapshot alone: a plan that was carried out in part, and is made again, has the same end.
func Allocate(s *Snapshot) *Plan {
	a := &allocation{Snapshot: s, Plan: Plan{
		Claims: map[netip.Addr]*Claim{}, Services: map[types.NamespacedName]*Assignment{},
		Calls: map[LeaseKey]*LeaseCall{}, Records: map[types.UID][]LeaseKey{},
	}, reserved: map[types.NamespacedName][]netip.Addr{}, exhausted: map[poolFamily]bool{}, held: map[LeaseKey]*Claim{}}
	a.begin()
	a.keep()
	a.each(a.restore)
	for _, as := range a.order {
		as.follow(a)
	}
	for _, as := range a.order {
		as.NodeIP = as.NodeIP || len(a.Pools) == 0 && len(as.By) == 0 && len(as.Request.addresses) == 0 && as.Request.Pool == "" &&
			as.Problem == nil
		as.checkSharing()
	}
	a.each(a.restoreReserved, a.adoptStatus, a.adoptAnnotation) // tenants write annotations, and could name what another has
	for _, as := range a.order {
		as.Moot = as.Request.reassign && !as.knowsAddress(a)
		as.Request.reassign = as.Request.reassign && !as.Moot
	}
	a.each(a.restoreReserved, a.giveRequested, a.choose) // what is kept for a Service is for one that asked in vain, too
	for _, as := range a.order {
		if as.stays != nil {
			as.fail(as.stays)
		}
		a.allOrNone(as)
		as.tellKept(a)
	}
	a.settle()
	a.renew()
	a.record()
	return &a.Plan
}

// each takes one step after the other for every family of every Service that may have claims.
func (a *allocation) each(steps ...func(*Assignment, bool)) {
	for _, step := range steps {
		for _, as := range a.order {
			if as.NodeIP {
				continue
			}
			for _, ipv6 := range Families(as.Service) {
				step(as, ipv6)
			}
		}
	}
}

// begin sorts Services by age, so that the older one wins.
func (a *allocation) begin() {
	for _, service := range a.Known {
		if !Served(service) {
			continue
		}
		as := &Assignment{Service: service, By: map[bool]netip.Addr{}}
		var problem *finding.Finding
		if as.Request, problem = requestOf(service); problem != nil {
			as.fail(problem)
		}
		as.NodeIP = as.Request.NodeIP
		a.Services[NameOf(service)] = as
		a.order = append(a.order, as)
	}
	slices.SortFunc(a.order, Older)
	for i, as := range a.order {
		as.place = i
	}
	a.completeRequests()
}

// keep leaves claims with their owners, as long as these want them.
func (a *allocation) keep() {
	var list []*Claim
	for _, c := range a.Present {
		c = c.copied()
		for _, key := range c.leases() {
			a.held[key] = c
		}
		switch {
		case !a.Plane.Has(c.Address):
		case slices.ContainsFunc(c.leases(), func(key LeaseKey) bool { return !a.Leases[key].Released }): // an IPAM has it still
			if c.Live() {
				c.Released, c.Probed = a.Now.Truncate(time.Second), time.Time{}
			}
		default:
			a.Drop = append(a.Drop, c)
			continue
		}
		list = append(list, c)
		a.Claims[c.Address] = c
	}
	// Of two claims for one Service, as a crash within a move leaves them, that which it asks for stays, then the older.
	slices.SortFunc(list, func(x, y *Claim) int {
		return cmp.Or(cmp.Compare(a.rank(x), a.rank(y)), olderClaim(x, y))
	})
	for _, c := range list {
		if c.Released.After(a.Now) { // by a clock that was ahead
			c.Released = a.Now.Truncate(time.Second)
		}
		if !c.Released.IsZero() {
			for _, owner := range c.Owners {
				a.reserved[owner] = append(a.reserved[owner], c.Address)
			}
			continue
		}
		for _, owner := range slices.Clone(c.Owners) {
			as := a.Services[owner]
			switch {
			case as != nil && a.keeps(as, c):
				as.By[c.Address.Is6()] = c.Address
			case as == nil || !as.keepsNext(a, c):
				a.leave(c, owner)
			}
		}
	}
}

func olderClaim(x, y *Claim) int {
	return cmp.Or(x.Object.CreationTimestamp.Compare(y.Object.CreationTimestamp.Time), x.Address.Compare(y.Address))
}

func (a *allocation) rank(c *Claim) int {
	for _, owner := range c.Owners {
		if as := a.Services[owner]; as != nil && slices.Contains(as.Request.addresses, c.Address) {
			return 0
		}
	}
	return 1
}

// keeps reports whether the Service still wants the claim, and gets on with the owners before it.
func (a *allocation) keeps(as *Assignment, c *Claim) bool {
	_, already := as.By[c.Address.Is6()]
	if as.NodeIP || already || !slices.Contains(Families(as.Service), c.Address.Is6()) {
		return false
	}
	if problem := as.quarrel(a, c); problem != nil {
		as.fail(problem)
		return false
	}
	return true
}

// quarrel says with which of the owners before it the Service may not share the claim any more; nil: it gets on with all.
func (as *Assignment) quarrel(a *allocation, c *Claim) *finding.Finding {
	for _, other := range c.Owners {
		if other == NameOf(as.Service) {
			return nil
		}
		if peer := a.Services[other]; peer != nil {
			if err := as.mayShare(peer); err != nil {
				return finding.SharingConflict.Errorf("share %s: %w", c.Address, err)
			}
		}
	}
	return nil
}

// leave takes an owner from a claim. The last one is who it is kept for.
func (a *allocation) leave(c *Claim, owner types.NamespacedName) {
	if as := a.Services[owner]; as != nil && as.By[c.Address.Is6()] == c.Address {
		delete(as.By, c.Address.Is6())
	}
	if len(c.Owners) > 1 {
		c.Owners = slices.DeleteFunc(c.Owners, func(o types.NamespacedName) bool { return o == owner })
		return
	}
	c.Released, c.Probed = a.Now.Truncate(time.Second), time.Time{}
}

// allOrNone gives back what is new to a Service that does not get all of its families.
func (a *allocation) allOrNone(as *Assignment) {
	if len(as.Addresses()) > 0 {
		return
	}
	if as.waits != nil && (as.Problem == nil || as.Problem.ID == finding.NoSuchFamily && !NeedsAll(as.Service)) {
		as.Problem = as.waits
	}
	name := NameOf(as.Service)
	for ipv6, address := range as.By {
		c := a.Claims[address]
		var before *Claim
		if c.Object != nil {
			before, _ = ParseClaim(c.Object)
		}
		switch {
		case before != nil && before.Released.IsZero() && before.Has(name):
			continue // it has had it before
		case len(c.Owners) > 1:
			a.leave(c, name)
		case before != nil:
			*c = *before
			if c.Live() && !a.holds(c) { // its owner has gone on to another one in this pass
				c.Released, c.Probed = a.Now.Truncate(time.Second), time.Time{}
			}
		default:
			delete(a.Claims, address)
		}
		delete(as.By, ipv6)
	}
}

// holds reports whether the claim is the address of one of its owners.
func (a *allocation) holds(c *Claim) bool {
	return slices.ContainsFunc(c.Owners, func(owner types.NamespacedName) bool {
		as := a.Services[owner]
		return as != nil && as.By[c.Address.Is6()] == c.Address
	})
}

// settle ends quarantines, and fills in what follows from the rest.
func (a *allocation) settle() {
	for address, c := range a.Claims {
		p := PoolOf(a.Pools, address)
		if !c.Live() {
			end := c.Released.Add(p.reuseAfter())
			if a.Lingering[address] {
				continue
			}
			over := len(c.Owners) == 0 || !end.After(a.Now)
			if over && !a.release(c) {
				continue
			}
			if over {
				delete(a.Claims, address)
				a.Drop = append(a.Drop, c)
			} else if a.Wake.IsZero() || end.Before(a.Wake) {
				a.Wake = end
			}
			continue
		}
		if p != nil && (p.Name == c.Pool || !a.named(c)) {
			c.Pool, c.Level = p.Name, p.level(c.Level, a.Peers)
		}
		if c.Probed.IsZero() && c.Object != nil && a.Announced[address] {
			c.Probed = a.Now
		}
	}
}

// named says that a Service asks for the claim's pool: the claim is of that pool also when others have the address now,
// so that an edit of pools does not look like a Service which asks for another one.
func (a *allocation) named(c *Claim) bool {
	return c.Pool != "" && slices.ContainsFunc(c.Owners, func(owner types.NamespacedName) bool {
		return a.Services[owner] != nil && a.Services[owner].Request.Pool == c.Pool
	})
}
