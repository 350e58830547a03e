package announce

import (
	"net/netip"
)

const (
	// maxOperations in a datagram keep it below 1,200 bytes, which no network divides.
	maxOperations = 40
	// maxUnderway is how many of them are sent to a member before it has acknowledged the first.
	maxUnderway = 8 * maxOperations
)

// peer is another member. Operations to and from it are numbered, in order and repeated until they are acknowledged:
// the link is a stream, and what it says of an address is never overtaken by what it said before.
type peer struct {
	name string

	// What it last said, to be echoed: an echo proves that a datagram is no old one.
	greeting      stamp
	greetingSince Moment

	// The session is that of the incarnation whose datagrams echo ours. 0: none yet.
	incarnation uint64
	stamp       uint64 // of the last datagram that was taken
	heard       Moment // when it was
	draining    bool
	list        []membershipID
	since       Moment // since when its newest list is what it is
	wants       map[netip.Addr]peerWant
	applied     uint32 // number of its last operation that was applied

	// acknowledged is when the newest of our datagrams was sent that it has taken, according to a datagram before which
	// nothing is missing; bound are the lists of members that it had then.
	acknowledged Moment
	bound        []membershipID

	out     []operation
	first   uint32 // number of out[0]
	told    uint32 // number of the last one that was sent
	revoked uint32 // number of the last one that took a grant back
	version byte   // of the format in which it speaks
	sent    Moment // when it was last sent to
	urgent  bool
	lacking membershipID // a list that it does not know
}

// peerWant is an address that a peer wants.
type peerWant struct {
	number uint32
	order  uint64
	owns   bool
}

// push queues an operation and returns its number.
func (p *peer) push(op operation) uint32 {
	p.out = append(p.out, op)
	p.urgent = true
	if op.kind == opRevoke {
		p.revoked = p.last()
	}
	return p.last()
}

// last is the number of the last operation that there is.
func (p *peer) last() uint32 { return p.first + uint32(len(p.out)) - 1 }

func (p *peer) newest() membershipID {
	if len(p.list) == 0 {
		return 0
	}
	return p.list[len(p.list)-1]
}

// Datagrams are those to be sent now.
func (q *Quorum) Datagrams(now Moment) []*Datagram {
	for _, name := range q.memberships.everybody() {
		q.peer(name)
	}
	var all []*Datagram
	for _, p := range q.peers {
		due := p.sent == 0 || now >= p.sent+heartbeatInterval
		if !due && !p.urgent {
			continue
		}
		if due {
			p.sent = now
			p.told = p.first - 1 // what is not acknowledged by now may be lost
		}
		p.urgent = false
		all = append(all, q.datagrams(now, p)...)
	}
	return all
}

// peer returns the one of this name, which it may be the first to mention.
func (q *Quorum) peer(name string) *peer {
	if q.peers[name] == nil && name != q.self {
		q.peers[name] = &peer{name: name, first: 1, version: versionNow, wants: map[netip.Addr]peerWant{}}
	}
	return q.peers[name]
}

// datagrams are a heartbeat, with what the peer was not told yet. Not more is on its way at a time than a receiver has room
// for: with hundreds of addresses, what came too fast was lost, and heartbeats with it.
func (q *Quorum) datagrams(now Moment, p *peer) []*Datagram {
	var burst []*Datagram
	first := max(p.first, p.told+1)
	rest := p.out[min(first-p.first, uint32(len(p.out))):min(len(p.out), q.underway)]
	for len(burst) == 0 || len(rest) > 0 {
		q.stamp = max(q.stamp+1, uint64(now))
		d := &Datagram{
			From: q.self, To: p.name, Stamp: stamp{q.incarnation, q.stamp}, Echo: p.greeting, Draining: q.draining,
			Lists: q.memberships.list, Lacks: q.memberships.lacks(p.list), Version: p.version,
		}
		if p.lacking != 0 && len(burst) == 0 {
			d.List = q.memberships.known[p.lacking]
		}
		if p.incarnation == p.greeting.Incarnation { // else there is no session, and what is in out is of a former one
			n := min(len(rest), maxOperations)
			d.Acknowledged, d.Applied = p.stamp, p.applied
			d.First, d.Last, d.Revoked, d.Operations = first, p.last(), p.revoked, rest[:n]
			rest, first = rest[n:], first+uint32(n)
			p.told = first - 1
		} else {
			rest = nil
		}
		burst = append(burst, d)
	}
	return burst
}

// Receive takes a datagram whose signature is right.
func (q *Quorum) Receive(now Moment, d *Datagram) {
	if d.To != q.self || d.From == q.self {
		return
	}
	p := q.peer(d.From)
	p.version = d.Version
	p.greet(now, d.Stamp)
	if d.Echo.Incarnation != q.incarnation || uint64(now) > d.Echo.Stamp+uint64(grantFor) {
		p.urgent = p.urgent || p.incarnation != d.Stamp.Incarnation // it may be an old one that somebody repeats; its answer will tell
		return
	}
	if d.Stamp.Incarnation != p.incarnation {
		if d.Stamp.Incarnation < p.incarnation && now < p.heard+grantFor {
			return // a former one's, late
		}
		q.begin(p, d.Stamp)
	} else if d.Stamp.Stamp <= p.stamp {
		return // a repeated one, or overtaken
	}
	p.stamp, p.heard, p.draining = d.Stamp.Stamp, now, d.Draining
	q.learn(now, p, d)
	q.apply(now, p, d)
}

// greet remembers what is to be echoed. A machine's clock may have been set back between two starts.
func (p *peer) greet(now Moment, s stamp) {
	switch {
	case s.Incarnation == p.greeting.Incarnation:
		if s.Stamp <= p.greeting.Stamp {
			return
		}
	case s.Incarnation < p.greeting.Incarnation && now < p.greetingSince+grantFor:
		return
	}
	p.greeting, p.greetingSince = s, now
}

// begin starts the session with a new incarnation. What the former one granted is void; what was granted to it stays
// until it would have ended.
func (q *Quorum) begin(p *peer, s stamp) {
	for _, seat := range q.seats {
		if seat.owner == p.name && !seat.orphan {
			seat.orphan, seat.until = true, p.heard+grantFor
		}
	}
	p.incarnation, p.greeting = s.Incarnation, s
	p.acknowledged, p.bound, p.list = 0, nil, nil
	p.wants, p.applied = map[netip.Addr]peerWant{}, 0
	p.out, p.first, p.told, p.revoked = nil, 1, 0, 0
	for address, w := range q.wants {
		delete(w.granted, p.name)
		q.ask(p, address)
		if w.owns {
			p.push(operation{kind: opOwn, address: address})
		}
	}
}

// learn takes what a datagram says of lists of members.
func (q *Quorum) learn(now Moment, p *peer, d *Datagram) {
	if len(d.List) > 0 {
		q.memberships.known[idOf(d.List)] = d.List
	}
	before := p.newest()
	p.list, p.lacking = d.Lists, d.Lacks
	if p.newest() != before {
		p.since = now
	}
	p.urgent = p.urgent || p.lacking != 0 && before != p.newest() || q.memberships.lacks(p.list) != 0 && before != p.newest()
}

// apply takes a datagram's operations, and what it acknowledges.
func (q *Quorum) apply(now Moment, p *peer, d *Datagram) {
	before := p.applied
	for p.first <= d.Applied && len(p.out) > 0 {
		p.out, p.first = p.out[1:], p.first+1
		p.urgent = p.urgent || p.told < p.last() // it has room for more
	}
	for i, op := range d.Operations {
		if d.First+uint32(i) == p.applied+1 {
			p.applied++
			q.operate(now, p, op)
		}
	}
	p.urgent = p.urgent || before < p.applied && p.applied < d.Last // it waits for room
	if p.applied < d.Revoked || q.memberships.lacks(d.Lists) != 0 {
		return // something that it said before is missing: it has taken a grant back
	}
	if sent := Moment(d.Acknowledged); sent > p.acknowledged {
		p.acknowledged, p.bound = sent, d.Lists
	}
}

func (q *Quorum) operate(now Moment, p *peer, op operation) {
	w := q.wants[op.address]
	mine := w != nil && w.numbers[p.name] == op.number
	switch op.kind {
	case opWant:
		q.order++
		p.wants[op.address] = peerWant{number: p.applied, order: q.order}
	case opDrop:
		delete(p.wants, op.address)
		if s := q.seats[op.address]; s != nil && s.owner == p.name {
			delete(q.seats, op.address)
		}
	case opOwn:
		if wanted, wants := p.wants[op.address]; wants {
			wanted.owns = true
			p.wants[op.address] = wanted
		}
	case opGrant:
		if mine {
			w.granted[p.name] = true
		}
	case opRevoke:
		if mine {
			delete(w.granted, p.name)
		}
	}
	q.settle(now, op.address)
}
