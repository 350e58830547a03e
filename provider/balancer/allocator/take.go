package allocator

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/ccmadm/ccmadm/api/finding"
)

// restoreReserved gives a Service back the addresses that are reserved for it.
func (a *allocation) restoreReserved(as *Assignment, ipv6 bool) {
	if as.Request.reassign {
		return
	}
	a.adopt(as, ipv6, a.reserved[NameOf(as.Service)], a.take)
}

func (a *allocation) adoptAnnotation(as *Assignment, ipv6 bool) {
	a.adopt(as, ipv6, as.present(a.Snapshot, Earlier(as.Service, false)), a.take)
}

// adoptStatus asks no IPAM: what is published is in use.
func (a *allocation) adoptStatus(as *Assignment, ipv6 bool) {
	a.adopt(as, ipv6, Earlier(as.Service, true), a.takeOwn)
}

// adopt takes the first of some addresses that the Service may have, unless it asks for another one.
func (a *allocation) adopt(as *Assignment, ipv6 bool, addresses []netip.Addr,
	take func(*Assignment, netip.Addr) *finding.Finding,
) {
	wanted, asks := a.wanted(as, ipv6)
	for _, address := range addresses {
		_, has := as.By[ipv6]
		if has || address.Is6() != ipv6 || asks && wanted != address || a.gaveAway(as, address) {
			continue
		}
		problem := take(as, address) // what it cannot have any more it has lost; choose says what it gets
		if problem != nil && problem.ID == finding.SharingConflict {
			as.unshared = problem
		}
	}
}

// giveRequested gives a Service the address that it requests. What it has stays, until it has that.
func (a *allocation) giveRequested(as *Assignment, ipv6 bool) {
	wanted, asks := a.wanted(as, ipv6)
	if !asks || as.By[ipv6] == wanted || as.Next == wanted || ipv6 && as.stays != nil {
		return
	}
	a.move(as, ipv6, func() *finding.Finding { return a.take(as, wanted) })
}

// move lets a Service take another address for the one that it may have.
func (a *allocation) move(as *Assignment, ipv6 bool, take func() *finding.Finding) bool {
	old, had := as.By[ipv6]
	if problem := take(); problem != nil {
		as.fail(problem)
		return false
	}
	taken := as.By[ipv6]
	if had && old != taken {
		a.shareable = nil // the address that it leaves is listed there
		a.leave(a.Claims[old], NameOf(as.Service))
		if ipv6 {
			a.dropNext(as)
		}
	}
	return true
}

// dropNext leaves the address that was to replace one which the Service has left. It would be the older one in the next pass.
func (a *allocation) dropNext(as *Assignment) {
	c := a.Claims[as.Next]
	if c != nil && as.Next != as.By[true] {
		if a.leave(c, NameOf(as.Service)); c.Object == nil && !c.Live() {
			delete(a.Claims, as.Next)
		}
	}
	as.Next, as.Follows, as.Followed, as.stays = netip.Addr{}, "", "", nil
}

// share gives a Service with a share key the address of an older one that has the same, where there is one, and unless it waits for
// the one that it had.
func (a *allocation) share(as *Assignment, ipv6 bool) bool {
	if as.Request.shareKey == "" || as.Problem != nil || a.awaits(as, ipv6) != nil {
		return false
	}
	if a.shareable == nil {
		a.shareable = shareables(a.order)
	}
	for _, c := range a.shareable.of(as, ipv6) {
		if !a.gaveAway(as, c.address) && a.take(as, c.address) == nil {
			return true
		}
	}
	return false
}

// choose gives a Service any address, where it has none, or shall have another one.
func (a *allocation) choose(as *Assignment, ipv6 bool) {
	current, has := as.By[ipv6]
	_, asks := a.wanted(as, ipv6)
	switch {
	case asks, len(as.Request.addresses) == 0 && as.Problem != nil && !has && as.Problem.ID != finding.SharingConflict &&
		as.Problem.ID != finding.IPAMPending:
		return // what it asks for is wrong
	case has && as.Request.reassign:
		as.Reassigned = a.move(as, ipv6, func() *finding.Finding { return a.takeAny(as, ipv6) }) || as.Reassigned
	case has && as.Request.Pool != "" && as.Request.Pool != a.Claims[current].Pool && !a.poolHas(as.Request.Pool, current):
		a.move(as, ipv6, func() *finding.Finding { return a.takeAny(as, ipv6) })
	case !has && a.share(as, ipv6):
	case !has:
		problem := a.takeAny(as, ipv6)
		if problem != nil && problem.ID == finding.IPAMPending && as.waits == nil {
			as.waits = problem
		}
		if problem != nil && (NeedsAll(as.Service) || len(as.By) == 0 && ipv6 == lastFamily(as.Service)) {
			as.fail(as.withLoss(problem))
		}
	}
}

// lastFamily is the one after which a Service with PreferDualStack has no hope left.
func lastFamily(service *corev1.Service) bool {
	families := Families(service)
	return families[len(families)-1]
}

func (a *allocation) poolHas(name string, address netip.Addr) bool {
	p := poolNamed(a.Pools, name)
	return p != nil && p.Set.Contains(address)
}

// takeAny takes a free address of the first pool that has one.
func (a *allocation) takeAny(as *Assignment, ipv6 bool) *finding.Finding {
	if problem := a.awaits(as, ipv6); problem != nil {
		return problem
	}
	pools, problem := a.poolsFor(as, ipv6)
	if problem != nil {
		return problem
	}
	free := func(address netip.Addr) bool { return a.Claims[address] == nil && !a.Conflicts[address] }
	var refused *finding.Finding
	for _, p := range pools {
		if p.Spec.IPAM != nil {
			problem := a.leased(as, p, ipv6, netip.Addr{})
			if problem == nil || problem.ID == finding.IPAMPending {
				return problem
			}
			refused = problem
			continue
		}
		if a.exhausted[poolFamily{p.Name, ipv6}] {
			continue
		}
		if address, ok := firstFree(p.Free.Ranges(), ipv6, NameOf(as.Service).String(), free); ok {
			a.claim(as, address, p)
			return nil
		}
		a.exhausted[poolFamily{p.Name, ipv6}] = true // claims that end are reserved until settle
	}
	if refused != nil {
		return refused
	}
	var names []string
	for _, p := range pools {
		names = append(names, p.Name)
	}
	return finding.PoolExhausted.Errorf("no %s address is left in AddressPools %v", FamilyName(ipv6), names)
}

// poolsFor are those that serve the Service, in their order.
func (a *allocation) poolsFor(as *Assignment, ipv6 bool) ([]*Pool, *finding.Finding) {
	var pools []*Pool
	named, broken, serve, unknown := false, (*Pool)(nil), false, (*Pool)(nil)
	for _, p := range a.Pools {
		if p.Name == as.Request.Pool {
			named = true
		}
		if as.Request.Pool != "" && p.Name != as.Request.Pool || as.Request.Pool == "" && !ptr.Deref(p.Spec.AutoAssign, true) ||
			!p.serves(as.Service, a.Namespaces) {
			continue
		}
		if !p.gives() {
			broken = p
			continue
		}
		serve = true
		if p.has(ipv6) {
			pools = append(pools, p)
		} else if ipv6 && p.LacksPrefix() != nil {
			unknown = p
		}
	}
	switch {
	case as.Request.Pool != "" && !named:
		return nil, finding.PoolNotFound.Errorf("AddressPool/%s does not exist", as.Request.Pool)
	case len(pools) > 0:
		return pools, nil
	case unknown != nil:
		return nil, finding.PoolNotReady.Errorf("AddressPool/%s gives no IPv6 address: %w", unknown.Name, unknown.LacksPrefix())
	case serve:
		return nil, finding.NoSuchFamily.Errorf("no AddressPool that serves the Service has %s addresses", FamilyName(ipv6))
	case broken != nil && broken.Problem != nil:
		return nil, finding.PoolNotReady.Errorf("AddressPool/%s gives nothing: %w", broken.Name, broken.Problem)
	case broken != nil:
		return nil, finding.NoPoolServes.Errorf("AddressPool/%s is disabled", broken.Name)
	}
	return nil, finding.NoPoolServes.Errorf("none of %d AddressPools serves the Service", len(a.Pools))
}

// take gives a certain address to a Service, or says why not.
func (a *allocation) take(as *Assignment, address netip.Addr) *finding.Finding {
	if p := PoolOf(a.Pools, address); p != nil && p.Spec.IPAM != nil && a.Claims[address] == nil {
		if problem := a.mayTake(as, address); problem != nil {
			return problem
		}
		return a.leased(as, p, address.Is6(), address)
	}
	return a.takeOwn(as, address)
}

// takeOwn is take for an address that no IPAM needs to be asked for.
func (a *allocation) takeOwn(as *Assignment, address netip.Addr) *finding.Finding {
	if problem := a.mayTake(as, address); problem != nil {
		return problem
	}
	return a.join(as, address)
}

// mayTake says why pools do not give a certain address to a Service.
func (a *allocation) mayTake(as *Assignment, address netip.Addr) *finding.Finding {
	p := PoolOf(a.Pools, address)
	switch {
	case a.Plane.Has(address):
		return finding.AddressInUse.Errorf("%s is the control plane's address", address)
	case p == nil:
		return finding.AddressOutsidePools.Errorf("%s is in no AddressPool", address)
	case as.Request.Pool != "" && p.Name != as.Request.Pool:
		return finding.AddressOutsidePools.Errorf("%s is in AddressPool/%s, not in %s", address, p.Name, as.Request.Pool)
	case p.Problem != nil:
		return finding.PoolNotReady.Errorf("AddressPool/%s, which has %s, gives nothing: %w", p.Name, address, p.Problem)
	case !p.serves(as.Service, a.Namespaces):
		return finding.NoPoolServes.Errorf("AddressPool/%s contains %s but does not serve the Service", p.Name, address)
	case a.Claims[address] == nil && !p.gives():
		return finding.NoPoolServes.Errorf("AddressPool/%s contains %s but is disabled", p.Name, address)
	}
	if a.Claims[address] == nil && !p.Free.Contains(address) {
		return finding.AddressInUse.Errorf("%s", p.owner(address))
	}
	return nil
}

// join gives a certain address to a Service, whatever pools there are, or says whose it is.
func (a *allocation) join(as *Assignment, address netip.Addr) *finding.Finding {
	p, c, name := PoolOf(a.Pools, address), a.Claims[address], NameOf(as.Service)
	if p == nil {
		p = as.formerPool(a.Snapshot, address)
	}
	switch {
	case a.Plane.Has(address):
		return finding.AddressInUse.Errorf("%s is the control plane's address", address)
	case a.Conflicts[address]:
		return finding.AddressInUse.Errorf("%s is claimed by an IPAddress of another owner", address)
	case c == nil:
		a.claim(as, address, p)
		return nil
	case a.ending(c):
		return finding.AddressInUse.Errorf("%s is being released by the IPAM of AddressPool/%s", address, c.Lease.Pool)
	case !c.Live() && !a.mayRevive(as, c):
		return finding.AddressInUse.Errorf("%s is reserved for Service/%s until %s", address, c.keptFor(),
			formatTime(c.Released.Add(p.reuseAfter())))
	case !c.Live():
		c.revive(name)
	default:
		from, problem := a.leaver(as, c)
		if problem == nil && from != nil {
			problem = a.takeOver(as, from, c)
		} else if problem == nil {
			c.Owners = append(c.Owners, name)
		}
		if problem != nil {
			return problem
		}
	}
	a.give(as, address)
	return nil
}

// claim makes a new one, of the pool that the Service names, or else of p, which may be nil.
func (a *allocation) claim(as *Assignment, address netip.Addr, p *Pool) {
	name := NameOf(as.Service)
	c := &Claim{
		Address: address, Pool: as.Request.Pool, Level: p.level("", a.Peers), Parent: name, Owners: []types.NamespacedName{name},
	}
	if p != nil && c.Pool == "" {
		c.Pool = p.Name
	}
	a.Claims[address] = c
	a.give(as, address)
}

// give notes whose the address is.
func (a *allocation) give(as *Assignment, address netip.Addr) {
	as.By[address.Is6()] = address
	if a.shareable != nil {
		a.shareable.add(as, address)
	}
}

// restore claims again what a Service has by its annotation and its status, where the claim was lost, whatever pools give
// by now.
func (a *allocation) restore(as *Assignment, ipv6 bool) {
	published := as.restorable(a.Snapshot)
	a.adopt(as, ipv6, published, a.join)
	if ipv6 {
		as.restoreFormer(a, published)
	}
}

// restorable are the published addresses that a Service had by its annotation, too. Tenants write annotations, and no status; there the
// addresses of Nodes are, too, and those from another implementation, so that what is in no pool has to be what our condition speaks of.
func (as *Assignment) restorable(s *Snapshot) []netip.Addr {
	allocated := Earlier(as.Service, false)
	return slices.DeleteFunc(Earlier(as.Service, true), func(address netip.Addr) bool {
		return !slices.Contains(allocated, address) || s.Nodes[address] ||
			PoolOf(s.Pools, address) == nil && !SaidToBeClaimed(as.Service, address)
	})
}

// restoreFormer claims the published address of a Service again where only the claim of the one that is to replace it is left, or none is,
// and the Service requests the host part: no agent has announced the other one yet.
func (as *Assignment) restoreFormer(a *allocation, published []netip.Addr) {
	own, has := as.By[true]
	for _, address := range published {
		switch {
		case !address.Is6() || a.gaveAway(as, address) || has && !as.publishedFirst(a, address) || !has && !as.requestedUnder(a, address):
		case has && address == as.Next, a.join(as, address) == nil:
			if has {
				as.goBack(a, own, address)
			}
			return
		}
	}
}
