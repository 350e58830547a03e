package quorum

import (
	"net/netip"
	"time"
)

// settle grants the address, if it is free, to the member that has waited longest.
func (q *Member) settle(now Instant, address netip.Addr) {
	g := q.grants[address]
	if g != nil && !q.free(now, address, g) {
		return
	}
	if len(q.memberships.list) == 0 || now < q.started+grantFor {
		return // the grants of the former incarnation are not known any more
	}
	chosen, number := q.first(now, address)
	if chosen == "" || g != nil && g.owner == chosen && !g.orphan {
		return
	}
	if g != nil && g.owner != q.self && g.owner != chosen && !g.orphan {
		q.peers[g.owner].push(operation{kind: opRevoke, address: address, number: g.number})
	}
	q.grants[address] = &grant{owner: chosen, number: number}
	if chosen != q.self {
		q.peers[chosen].push(operation{kind: opGrant, address: address, number: number})
	}
}

// free reports whether a grant has ended, so that another member may get one. A member that has restarted gets its own back.
func (q *Member) free(now Instant, address netip.Addr, g *grant) bool {
	if g.owner == q.self {
		return q.requests[address] == nil
	}
	p := q.peers[g.owner]
	if !g.orphan {
		return now >= p.heard+grantFor
	}
	if r, waits := p.requests[address]; waits && q.Alive(now, p.name) {
		q.grants[address] = &grant{owner: p.name, number: r.number}
		p.push(operation{kind: opGrant, address: address, number: r.number})
		return false
	}
	return now >= g.until
}

// grantable is in how much time the address may be granted to another member. A datagram, or a member whose heartbeats
// stop, has all addresses looked at earlier.
func (q *Member) grantable(now Instant, address netip.Addr) time.Duration {
	g := q.grants[address]
	switch {
	case now < q.started+grantFor:
		return q.started + grantFor - now
	case g == nil, g.owner == q.self:
		return lookAgain
	case g.orphan:
		return g.until - now
	}
	return q.peers[g.owner].heard + grantFor - now
}

// first is the member that has waited longest, with the number of its request.
func (q *Member) first(now Instant, address netip.Addr) (string, uint32) {
	chosen, number, order := "", uint32(0), uint64(0)
	if r := q.requests[address]; r != nil {
		chosen, order = q.self, r.order
	}
	for name, p := range q.peers {
		r, waits := p.requests[address]
		if waits && q.Alive(now, name) && (chosen == "" || r.order < order) {
			chosen, number, order = name, r.number, r.order
		}
	}
	return chosen, number
}

// demand is who owns an address, or the first of those that say so, and by how many members that are alive it is requested.
type demand struct {
	owner string
	by    int
}

// requested are all addresses that are.
func (q *Member) requested(now Instant) map[netip.Addr]demand {
	all := map[netip.Addr]demand{}
	for address, r := range q.requests {
		d := demand{by: 1}
		if r.owns {
			d.owner = q.self
		}
		all[address] = d
	}
	for name, p := range q.peers {
		if !q.Alive(now, name) {
			continue
		}
		for address, r := range p.requests {
			d := all[address]
			if d.by++; r.owns && d.owner != q.self && (d.owner == "" || name < d.owner) {
				d.owner = name
			}
			all[address] = d
		}
	}
	return all
}
