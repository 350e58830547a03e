package balancer

import (
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/finding"
)

// restoreReserved gives a Service back the addresses that are reserved for it.
func (a *allocation) restoreReserved(as *assignment, ipv6 bool) {
	if as.request.reassign {
		return
	}
	a.adopt(as, ipv6, a.reserved[nameOf(as.service)], a.take)
}

func (a *allocation) adoptAnnotation(as *assignment, ipv6 bool) {
	a.adopt(as, ipv6, earlier(as.service, false), a.take)
}

func (a *allocation) adoptStatus(as *assignment, ipv6 bool) {
	a.adopt(as, ipv6, earlier(as.service, true), a.take)
}

// restore claims again what a Service has by its annotation and its status, where the claim was lost, whatever pools give
// by now. Tenants write annotations, and no status; there the addresses of Nodes are, too, and those from another
// implementation, so that what is in no pool has to be what our condition speaks of.
func (a *allocation) restore(as *assignment, ipv6 bool) {
	allocated := earlier(as.service, false)
	published := slices.DeleteFunc(earlier(as.service, true), func(address netip.Addr) bool {
		return !slices.Contains(allocated, address) || a.nodes[address] ||
			poolOf(a.pools, address) == nil && !saidToBeClaimed(as.service)
	})
	a.adopt(as, ipv6, published, a.join)
}

// adopt takes the first of some addresses that the Service may have, unless it asks for another one.
func (a *allocation) adopt(as *assignment, ipv6 bool, addresses []netip.Addr,
	take func(*assignment, netip.Addr) *finding.Finding,
) {
	wanted, asks := as.request.of(ipv6)
	for _, address := range addresses {
		_, has := as.by[ipv6]
		if has || address.Is6() != ipv6 || asks && wanted != address {
			continue
		}
		_ = take(as, address) // what it cannot have any more it has lost; choose says what it gets
	}
}

// giveRequested gives a Service the address that it requests. What it has stays, until it has that.
func (a *allocation) giveRequested(as *assignment, ipv6 bool) {
	wanted, asks := as.request.of(ipv6)
	if !asks || as.by[ipv6] == wanted {
		return
	}
	a.move(as, ipv6, func() *finding.Finding { return a.take(as, wanted) })
}

// move lets a Service take another address for the one that it may have.
func (a *allocation) move(as *assignment, ipv6 bool, take func() *finding.Finding) bool {
	old, had := as.by[ipv6]
	if problem := take(); problem != nil {
		as.fail(problem)
		return false
	}
	taken := as.by[ipv6]
	if had && old != taken {
		a.leave(a.claims[old], nameOf(as.service))
	}
	return true
}

// share gives a Service with a share key the address of an older one that has the same, where there is one.
func (a *allocation) share(as *assignment, ipv6 bool) bool {
	if as.request.shareKey == "" || as.problem != nil {
		return false
	}
	for _, other := range a.order {
		address, has := other.by[ipv6]
		if has && mayShare(as.service, other.service) == nil && a.take(as, address) == nil {
			return true
		}
	}
	return false
}

// choose gives a Service any address, where it has none, or shall have another one.
func (a *allocation) choose(as *assignment, ipv6 bool) {
	current, has := as.by[ipv6]
	_, asks := as.request.of(ipv6)
	switch {
	case asks, len(as.request.addresses) == 0 && as.problem != nil && !has && as.problem.ID != finding.SharingConflict:
		return // what it asks for is wrong
	case has && as.request.reassign:
		as.reassigned = a.move(as, ipv6, func() *finding.Finding { return a.takeAny(as, ipv6) }) || as.reassigned
	case has && as.request.pool != "" && as.request.pool != a.claims[current].pool && !a.poolHas(as.request.pool, current):
		a.move(as, ipv6, func() *finding.Finding { return a.takeAny(as, ipv6) })
	case !has && a.share(as, ipv6):
	case !has:
		problem := a.takeAny(as, ipv6)
		if problem != nil && (needsAll(as.service) || len(as.by) == 0 && ipv6 == lastFamily(as.service)) {
			as.fail(problem)
		}
	}
}

// lastFamily is the one after which a Service with PreferDualStack has no hope left.
func lastFamily(service *corev1.Service) bool {
	families := families6(service)
	return families[len(families)-1]
}

func (a *allocation) poolHas(name string, address netip.Addr) bool {
	return slices.ContainsFunc(a.pools, func(p *pool) bool { return p.Name == name && p.set.Contains(address) })
}

// takeAny takes a free address of the first pool that has one.
func (a *allocation) takeAny(as *assignment, ipv6 bool) *finding.Finding {
	pools, problem := a.poolsFor(as, ipv6)
	if problem != nil {
		return problem
	}
	free := func(address netip.Addr) bool { return a.claims[address] == nil && !a.conflicts[address] }
	for _, p := range pools {
		if address, ok := firstFree(p.free.Ranges(), ipv6, nameOf(as.service).String(), free); ok {
			a.claim(as, address, p)
			return nil
		}
	}
	var names []string
	for _, p := range pools {
		names = append(names, p.Name)
	}
	return finding.PoolExhausted.Errorf("no %s address is left in AddressPools %v", familyName(ipv6), names)
}

// poolsFor are those that serve the Service, in their order.
func (a *allocation) poolsFor(as *assignment, ipv6 bool) ([]*pool, *finding.Finding) {
	var pools []*pool
	named, broken, serve := false, (*pool)(nil), false
	for _, p := range a.pools {
		if p.Name == as.request.pool {
			named = true
		}
		if as.request.pool != "" && p.Name != as.request.pool || as.request.pool == "" && !isTrue(p.Spec.AutoAssign, true) ||
			!p.serves(as.service, a.namespaces) {
			continue
		}
		if !p.gives() {
			broken = p
			continue
		}
		serve = true
		if p.has(ipv6) {
			pools = append(pools, p)
		}
	}
	switch {
	case as.request.pool != "" && !named:
		return nil, finding.PoolNotFound.Errorf("there is no AddressPool/%s", as.request.pool)
	case len(pools) > 0:
		return pools, nil
	case serve:
		return nil, finding.NoSuchFamily.Errorf("no AddressPool that serves the Service has %s addresses", familyName(ipv6))
	case broken != nil && broken.problem != nil:
		return nil, finding.PoolNotReady.Errorf("AddressPool/%s gives nothing: %w", broken.Name, broken.problem)
	case broken != nil:
		return nil, finding.NoPoolServes.Errorf("AddressPool/%s is disabled", broken.Name)
	}
	return nil, finding.NoPoolServes.Errorf("none of %d AddressPools serves the Service", len(a.pools))
}

// take gives a certain address to a Service, or says why not.
func (a *allocation) take(as *assignment, address netip.Addr) *finding.Finding {
	p := poolOf(a.pools, address)
	switch {
	case a.plane.Has(address):
		return finding.AddressInUse.Errorf("%s is the control plane's address", address)
	case p == nil:
		return finding.AddressOutsidePools.Errorf("%s is in no AddressPool", address)
	case as.request.pool != "" && p.Name != as.request.pool:
		return finding.AddressOutsidePools.Errorf("%s is in AddressPool/%s, not in %s", address, p.Name, as.request.pool)
	case p.problem != nil:
		return finding.PoolNotReady.Errorf("AddressPool/%s, which has %s, gives nothing: %w", p.Name, address, p.problem)
	case !p.serves(as.service, a.namespaces):
		return finding.NoPoolServes.Errorf("AddressPool/%s, which has %s, does not serve the Service", p.Name, address)
	case a.claims[address] == nil && !p.gives():
		return finding.NoPoolServes.Errorf("AddressPool/%s, which has %s, is disabled", p.Name, address)
	}
	if a.claims[address] == nil && !p.free.Contains(address) {
		return finding.AddressInUse.Errorf("%s", p.owner(address))
	}
	return a.join(as, address)
}

// join gives a certain address to a Service, whatever pools there are, or says whose it is.
func (a *allocation) join(as *assignment, address netip.Addr) *finding.Finding {
	p, c, name := poolOf(a.pools, address), a.claims[address], nameOf(as.service)
	switch {
	case a.plane.Has(address):
		return finding.AddressInUse.Errorf("%s is the control plane's address", address)
	case a.conflicts[address]:
		return finding.AddressInUse.Errorf("%s is claimed by an IPAddress that is not ours", address)
	case c == nil:
		a.claim(as, address, p)
		return nil
	case !c.live() && !c.has(name):
		return finding.AddressInUse.Errorf("%s is kept for Service/%s until %s", address, c.parent,
			formatTime(c.released.Add(p.reuseAfter())))
	case !c.live():
		c.owners, c.released = []types.NamespacedName{name}, time.Time{}
	default:
		for _, owner := range c.owners {
			if problem := a.shareWith(as, owner, address); problem != nil {
				return problem
			}
		}
		c.owners = append(c.owners, name)
	}
	as.by[address.Is6()] = address
	return nil
}

func (a *allocation) shareWith(as *assignment, owner types.NamespacedName, address netip.Addr) *finding.Finding {
	other := a.services[owner]
	err := mayShare(as.service, other.service)
	switch {
	case err == nil:
		return nil
	case as.request.shareKey != "" && as.request.shareKey == other.request.shareKey:
		return finding.SharingConflict.Errorf("share %s: %w", address, err)
	}
	return finding.AddressInUse.Errorf("%s belongs to Service/%s", address, owner)
}

// claim makes a new one, of the pool that the Service names, or else of p, which may be nil.
func (a *allocation) claim(as *assignment, address netip.Addr, p *pool) {
	name := nameOf(as.service)
	c := &claim{
		address: address, pool: as.request.pool, level: p.level("", a.peers), parent: name, owners: []types.NamespacedName{name},
	}
	if p != nil && c.pool == "" {
		c.pool = p.Name
	}
	a.claims[address] = c
	as.by[address.Is6()] = address
}
