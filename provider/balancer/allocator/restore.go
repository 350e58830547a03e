package allocator

import (
	"net/netip"
	"slices"
)

// restore claims again what a Service has by its annotation and its status, where the claim was lost, whatever pools give
// by now.
func (a *allocation) restore(as *Assignment, ipv6 bool) {
	published := as.restorable(a.Snapshot)
	a.adopt(as, ipv6, published, a.join)
	if ipv6 {
		a.restoreFormer(as, published)
	}
}

// restorable are the published addresses that a Service had by its annotation, too. Tenants write annotations, and no status; there the
// addresses of Nodes are, too, and those from another implementation, so that what is in no pool has to be what our condition speaks of, or
// under a former prefix of a pool.
func (as *Assignment) restorable(s *Snapshot) []netip.Addr {
	allocated := Earlier(as.Service, false)
	return slices.DeleteFunc(Earlier(as.Service, true), func(address netip.Addr) bool {
		return !slices.Contains(allocated, address) || s.Nodes[address] ||
			PoolOf(s.Pools, address) == nil && !saidToBeClaimed(as.Service, address) && as.formerPool(s, address) == nil
	})
}

// restoreFormer claims the published address of a Service again where only the claim of the one that is to replace it is left, or none is,
// and the Service requests the host part: no agent has announced the other one yet.
func (a *allocation) restoreFormer(as *Assignment, published []netip.Addr) {
	own, has := as.By[true]
	for _, address := range published {
		switch {
		case !address.Is6() || a.gaveAway(as, address) || has && !as.publishedFirst(a, address) || !has && !a.requestedUnder(as, address):
		case has && address == as.Next, a.join(as, address) == nil:
			if has {
				as.goBack(a, own, address)
			}
			return
		}
	}
}

// publishedFirst reports whether the address is published, and the one that the Service has instead is not: that has the same host part under
// another prefix, and was not announced yet.
func (as *Assignment) publishedFirst(a *allocation, address netip.Addr) bool {
	own, published := as.By[true], Earlier(as.Service, true)
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

// requestedUnder reports whether the Service requests the host part of a published address under another prefix.
func (a *allocation) requestedUnder(as *Assignment, published netip.Addr) bool {
	wanted, asks := a.wanted(as, true)
	p := as.formerPool(a.Snapshot, published)
	if !asks || p == nil {
		return false
	}
	next, ok := p.under(published)
	return ok && next == wanted
}

// sameHost reports whether both addresses have one host part of the pool that the claim of the first one is from.
func (a *allocation) sameHost(own, other netip.Addr) bool {
	p := poolNamed(a.Pools, a.Claims[own].Pool)
	if p == nil || p.hosts == nil || !own.Is6() || !other.Is6() {
		return false
	}
	length := int(p.Spec.DynamicPrefix.Length)
	host := hostPart(own, length)
	in := PoolOf(a.Pools, other)
	return hostPart(other, length) == host && p.hosts.Contains(host) && (in == nil || in == p)
}

// lostClaims are what claims of the published IPv6 addresses of a Service would say, which may have been lost.
func (as *Assignment) lostClaims(s *Snapshot) []*Claim {
	var list []*Claim
	for _, address := range as.restorable(s) {
		p := PoolOf(s.Pools, address)
		if p == nil {
			p = as.formerPool(s, address)
		}
		if p != nil && address.Is6() {
			list = append(list, &Claim{Address: address, Pool: p.Name})
		}
	}
	return list
}

// formerPool is the pool that a published address is from whose prefix is another one now, or not known: a pool that has its host
// part, rather one that gives the Service addresses. Nil: it is in a pool, or may be a Node's or another implementation's, or of a
// pool that is gone.
func (as *Assignment) formerPool(s *Snapshot, address netip.Addr) *Pool {
	said := Condition(as.Service)
	if said == nil || said.Reason == NodeIPReason || said.Reason == OutOfPoolReason || !address.Is6() || PoolOf(s.Pools, address) != nil {
		return nil
	}
	var found *Pool
	for _, p := range s.Pools {
		if p.hosts == nil || !p.hosts.Contains(hostPart(address, int(p.Spec.DynamicPrefix.Length))) {
			continue
		}
		if as.mayBeOf(p, s) && p.gives() {
			return p
		}
		if found == nil || !as.mayBeOf(found, s) && as.mayBeOf(p, s) {
			found = p
		}
	}
	return found
}
