package quorum

import (
	"net/netip"
	"time"
)

// settle grants the address to whoever has waited longest, if it is free.
func (q *Member) settle(now Moment, address netip.Addr) {
	s := q.seats[address]
	if s != nil && !q.free(now, address, s) {
		return
	}
	if len(q.memberships.list) == 0 || now < q.started+grantFor {
		return // what the former incarnation knew, and granted to somebody, is not known any more
	}
	chosen, number := q.first(now, address)
	if chosen == "" || s != nil && s.owner == chosen && !s.orphan {
		return
	}
	if s != nil && s.owner != q.self && s.owner != chosen && !s.orphan {
		q.peers[s.owner].push(operation{kind: opRevoke, address: address, number: s.number})
	}
	q.seats[address] = &seat{owner: chosen, number: number}
	if chosen != q.self {
		q.peers[chosen].push(operation{kind: opGrant, address: address, number: number})
	}
}

// free says whether a seat may be given to somebody else; to the same member, after it was started again, it may.
func (q *Member) free(now Moment, address netip.Addr, s *seat) bool {
	if s.owner == q.self {
		return q.wants[address] == nil
	}
	p := q.peers[s.owner]
	if !s.orphan {
		return now >= p.heard+grantFor
	}
	if wanted, wants := p.wants[address]; wants && q.Alive(now, p.name) {
		q.seats[address] = &seat{owner: p.name, number: wanted.number}
		p.push(operation{kind: opGrant, address: address, number: wanted.number})
		return false
	}
	return now >= s.until
}

// grantable is in how much time the address may be granted to somebody else, unless something is heard before: what is
// said, and who falls silent, is looked at at once.
func (q *Member) grantable(now Moment, address netip.Addr) time.Duration {
	s := q.seats[address]
	switch {
	case now < q.started+grantFor:
		return q.started + grantFor - now
	case s == nil, s.owner == q.self:
		return lookAgain
	case s.orphan:
		return s.until - now
	}
	return q.peers[s.owner].heard + grantFor - now
}

// first is the member that has waited longest, with the number of its want.
func (q *Member) first(now Moment, address netip.Addr) (string, uint32) {
	chosen, number, order := "", uint32(0), uint64(0)
	if w := q.wants[address]; w != nil {
		chosen, order = q.self, w.order
	}
	for name, p := range q.peers {
		wanted, wants := p.wants[address]
		if wants && q.Alive(now, name) && (chosen == "" || wanted.order < order) {
			chosen, number, order = name, wanted.number, wanted.order
		}
	}
	return chosen, number
}
