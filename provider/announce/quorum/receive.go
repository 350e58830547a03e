package quorum

import "net/netip"

// Receive takes a datagram whose signature is right, and reports whether it is new: its sender has sent it to this incarnation a moment ago, and
// after all others that have arrived.
func (q *Member) Receive(now Instant, d *Datagram) bool {
	if d.To != q.self || d.From == q.self {
		return false
	}
	p := q.peer(d.From)
	p.greet(now, d)
	if d.Echo.Incarnation != p.self || uint64(now) > d.Echo.Stamp+uint64(grantFor) {
		q.answer(now, p, d.Stamp)
		return false
	}
	if d.Stamp.Incarnation != p.incarnation {
		if d.Stamp.Incarnation < p.incarnation && now < p.heard+grantFor {
			return false // a former one's, late
		}
		q.begin(p, d.Stamp)
	} else if d.Stamp.Stamp <= p.stamp { // a repeated one, or overtaken
		// Its operations are numbered, and count: on a network that reorders datagrams all that are sent close to others would be lost.
		// What else it says is older than what is known.
		q.take(now, p, d)
		return false
	}
	p.urgent = p.urgent || now >= p.heard+aliveFor // so that it hears this member, too
	if d.Stamp.Stamp > p.stamp+uint64(aliveFor) {
		p.since = now // by its own clock it said nothing for long: it may have had another list meanwhile
	}
	p.stamp, p.heard, p.draining = d.Stamp.Stamp, now, d.Draining
	q.learn(now, p, d)
	q.apply(now, p, d)
	return true
}

// answer sends a peer the stamp that it is to echo. Its datagram may be an old one that was replayed; or one of the two was
// idle. Each answer may be late in its turn, so that there are no more of them than heartbeats.
func (q *Member) answer(now Instant, p *peer, s stamp) {
	fresh := s == p.greeting && now >= p.answered+HeartbeatInterval
	if fresh {
		p.answered = now
	}
	p.owed = p.owed || fresh || p.incarnation != s.Incarnation
	p.urgent = p.urgent || p.owed
}

// greet remembers what is to be echoed, and the newest version that this incarnation has used. A machine's clock may have
// been set back between two starts.
func (p *peer) greet(now Instant, d *Datagram) {
	s := d.Stamp
	switch {
	case s.Incarnation == p.greeting.Incarnation:
		if s.Stamp <= p.greeting.Stamp {
			return
		}
		p.version = max(p.version, d.Version)
	case s.Incarnation < p.greeting.Incarnation && now < p.greetingSince+grantFor:
		return
	default:
		p.version, p.shown = d.Version, 0
	}
	p.greeting, p.greetingSince = s, now
}

// begin starts the session with a new incarnation. What the former one granted is void; what was granted to it stays
// until it would have ended.
func (q *Member) begin(p *peer, s stamp) {
	for _, g := range q.grants {
		if g.owner == p.name && !g.orphan {
			g.orphan, g.until = true, p.heard+grantFor
		}
	}
	p.incarnation, p.greeting = s.Incarnation, s
	p.acknowledged, p.bound, p.list = 0, nil, nil
	p.requests, p.early, p.applied = map[netip.Addr]peerRequest{}, map[uint32]operation{}, 0
	p.out, p.first, p.told, p.revoked = nil, 1, 0, 0
	p.words, p.said, p.asked = map[netip.Addr]word{}, map[netip.Addr]word{}, false
	for _, r := range q.requests {
		delete(r.granted, p.name)
		delete(r.numbers, p.name)
	}
	q.include(p)
}

// learn takes what a datagram says of lists of members.
func (q *Member) learn(now Instant, p *peer, d *Datagram) {
	before := p.newest()
	p.list, p.lacking = d.Lists, d.Lacks
	if d.Version < versionParts && len(d.List) > 0 {
		q.memberships.known[IDOf(d.List)] = d.List
	} else if lacks := q.memberships.lacks(p.list); lacks != 0 && lacks == d.ListOf {
		if names := p.parts.add(d); names != nil {
			q.memberships.known[lacks] = names
		}
	}
	if p.newest() != before {
		p.since = now
	}
	q.bind(now, p)
	p.urgent = p.urgent || p.lacking != 0 && before != p.newest() || q.memberships.lacks(p.list) != 0 && before != p.newest()
}

// apply takes a datagram's operations, and what it acknowledges.
func (q *Member) apply(now Instant, p *peer, d *Datagram) {
	for p.first <= d.Applied && len(p.out) > 0 {
		p.out, p.first = p.out[1:], p.first+1
		p.urgent = p.urgent || p.told < p.last() // it has room for more
	}
	q.take(now, p, d)
	if p.applied < d.Revoked || q.memberships.lacks(d.Lists) != 0 {
		return // something that it said before is missing: it has taken a grant back
	}
	if sent := Instant(d.Acknowledged); sent > p.acknowledged {
		p.acknowledged, p.bound = sent, d.Lists
	}
}

// take applies a datagram's operations in their order, and keeps those before which some are missing: the datagram that has these is
// overtaken, or lost and sent again.
func (q *Member) take(now Instant, p *peer, d *Datagram) {
	before := p.applied
	for i, op := range d.Operations {
		if ahead := d.First + uint32(i) - before; ahead > 0 && ahead <= maxUnderway {
			p.early[d.First+uint32(i)] = op
		}
	}
	for op, is := p.early[p.applied+1]; is; op, is = p.early[p.applied+1] {
		p.applied++
		delete(p.early, p.applied)
		q.operate(now, p, op)
	}
	p.urgent = p.urgent || before < p.applied && p.applied < d.Last // it waits for room
	q.dirty = q.dirty || len(d.Operations) > 0
}

func (q *Member) operate(now Instant, p *peer, op operation) {
	r := q.requests[op.address]
	mine := r != nil && r.numbers[p.name] == op.number
	switch op.kind {
	case opRequest:
		q.order++
		p.requests[op.address] = peerRequest{number: p.applied, order: q.order}
	case opDrop:
		delete(p.requests, op.address)
		if g := q.grants[op.address]; g != nil && g.owner == p.name {
			delete(q.grants, op.address)
		}
	case opOwn:
		if r, waits := p.requests[op.address]; waits {
			r.owns = true
			p.requests[op.address] = r
		}
	case opGrant:
		if mine {
			r.granted[p.name] = true
		}
	case opRevoke:
		if mine {
			delete(r.granted, p.name)
		}
	default:
		p.words[op.address] = word(op.kind - opRevoke)
	}
	q.settle(now, op.address)
}
