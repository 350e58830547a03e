package quorum

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
)

const (
	// maxOperations are those of a datagram, if they fit.
	maxOperations = 40
	// maxUnderway is how many of them are sent to a member before it has acknowledged the first.
	maxUnderway = 8 * maxOperations
	// olderEvery is every how many heartbeats one that is not answered has the oldest format: an idle agent of an earlier release
	// says nothing, and refuses the newest one.
	olderEvery = 10
	// together is how much earlier than it is due a heartbeat is sent along with others.
	together = HeartbeatInterval / 10
)

// peer is another member. Operations to and from it are numbered, in order and repeated until they are acknowledged:
// the link is a stream, and what it says of an address is never overtaken by what it said before.
type peer struct {
	name string
	// self is the incarnation of this member in what it says to it.
	self uint64

	// What it last said, to be echoed: an echo proves that a datagram is no old one.
	greeting      stamp
	greetingSince Instant

	// The session is that of the incarnation whose datagrams echo ours. 0: none yet.
	incarnation uint64
	stamp       uint64  // of the last datagram that was taken
	heard       Instant // when it was
	draining    bool
	list        []ListID
	since       Instant // since when its newest list is what it is, and it was heard without a long pause
	requests    map[netip.Addr]peerRequest
	// words are what it has last said to this member of each address, and said what this member has said to it.
	words, said map[netip.Addr]word
	// asked says that it was asked for what this member requests.
	asked   bool
	applied uint32 // number of its last operation that was applied
	// early are operations behind others that have not come yet, by number; at most maxUnderway.
	early map[uint32]operation

	// acknowledged is when the newest of our datagrams was sent that it has taken, according to a datagram before which
	// nothing is missing; bound are the lists of members that it had then.
	acknowledged Instant
	bound        []ListID

	out     []operation
	first   uint32 // number of out[0]
	told    uint32 // number of the last one that was sent
	revoked uint32 // number of the last one that took a grant back
	version byte   // of the newest format that it knows, as far as it has shown
	shown   int    // how often it was shown a newer one since it started
	// shownAt is when it was last shown it.
	shownAt Instant
	// unanswered is how many heartbeats in a row it has not answered.
	unanswered int
	sent       Instant // when it was last sent to
	urgent     bool
	// owed says that it has greeted this member, which does not speak to it otherwise.
	owed bool
	// answered is when it was last sent to since it had not heard of us for long.
	answered Instant
	lacking  ListID   // a list that it does not know
	part     int      // of that list, which it is sent next
	parts    parts    // of one that it has and this member lacks
	liveness liveness // when all addresses were looked at
}

// peerRequest is an address that a peer requests.
type peerRequest struct {
	number uint32
	order  uint64
	owns   bool
}

// liveness is what time and heartbeats change of a peer's state. Operations set dirty themselves.
type liveness struct {
	alive, granting, draining bool
	incarnation, lists        uint64
}

// granting reports whether grants of the peer count: it has heard this member lately.
func (p *peer) granting(now Instant) bool { return p.acknowledged > 0 && now < p.acknowledged+ownFor }

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

func (p *peer) newest() ListID {
	if len(p.list) == 0 {
		return 0
	}
	return p.list[len(p.list)-1]
}

// Datagrams are those to be sent now.
func (q *Member) Datagrams(now Instant) []*Datagram {
	for _, name := range q.memberships.everybody() {
		q.peer(name)
	}
	var all []*Datagram
	idle := q.isIdle(now)
	if unheard := !q.acknowledged(now); unheard != q.unheard {
		q.unheard, q.unheardSince = unheard, now
	}
	for _, p := range q.everyPeer() {
		due := p.sent == 0 || now >= p.sent+HeartbeatInterval-together
		speaks := q.speaks(now, p)
		p.urgent = p.urgent && (speaks || p.owed)
		if (idle || !due || !speaks) && !p.urgent {
			continue
		}
		if due {
			p.sent = now
			p.told = p.first - 1 // what is not acknowledged by now may be lost
			if p.unanswered++; q.Alive(now, p.name) {
				p.unanswered = 0
			}
		}
		p.urgent, p.owed = false, false
		all = append(all, q.datagrams(now, p)...)
	}
	return all
}

// peer returns the one of this name, which it may be the first to mention.
func (q *Member) peer(name string) *peer {
	if q.peers[name] == nil && name != q.self {
		q.peers[name] = &peer{
			name: name, self: q.incarnation, first: 1, version: q.version, requests: map[netip.Addr]peerRequest{},
			early: map[uint32]operation{}, words: map[netip.Addr]word{}, said: map[netip.Addr]word{},
		}
	}
	return q.peers[name]
}

// speaks reports whether heartbeats go to the peer: one of the two has a vote, or the peer is heard and takes this member for one that
// has. In a large cluster most Nodes have none, and need not hear each other.
func (q *Member) speaks(now Instant, p *peer) bool {
	m := &q.memberships
	return q.counts(q.self) || q.asks(p) || q.Alive(now, p.name) && (m.lacks(p.list) != 0 || m.in(p.list, q.self))
}

// asks reports whether the peer is asked for addresses: its vote counts, or it is of an earlier release and chooses for itself.
func (q *Member) asks(p *peer) bool {
	return q.counts(p.name) || p.version < versionWords || q.version < versionWords
}

// include asks a peer whose vote counts now, and did not before.
func (q *Member) include(p *peer) {
	if p.incarnation == 0 || p.asked || !q.asks(p) {
		return
	}
	p.asked = true
	for _, address := range inOrder(q.requests, nil) {
		q.ask(p, address)
	}
}

// everyPeer is in the order of names.
func (q *Member) everyPeer() []*peer {
	return slices.SortedFunc(maps.Values(q.peers), func(a, b *peer) int { return strings.Compare(a.name, b.name) })
}

// datagrams are a heartbeat, with what the peer was not told yet. Not more is on its way at a time than a receiver has room
// for: with hundreds of addresses, what came too fast was lost, and heartbeats with it.
func (q *Member) datagrams(now Instant, p *peer) []*Datagram {
	var burst []*Datagram
	first := max(p.first, p.told+1)
	if p.unanswered%olderEvery == olderEvery-1 && !q.Alive(now, p.name) {
		d := q.heartbeat(now, p)
		if d.Version = versionBefore; q.session(p) {
			d.First = first
		}
		return []*Datagram{d}
	}
	rest := p.out[min(first-p.first, uint32(len(p.out))):min(len(p.out), q.underway)]
	for len(burst) == 0 || len(rest) > 0 {
		d := q.heartbeat(now, p)
		if p.lacking != 0 && len(burst) == 0 && p.version < versionParts {
			d.List = q.memberships.known[p.lacking]
		}
		if q.session(p) {
			n := min(len(rest), maxOperations, d.room())
			d.First, d.Operations = first, rest[:n]
			rest, first = rest[n:], first+uint32(n)
			p.told = first - 1
		} else {
			rest = nil
		}
		burst = append(burst, d)
	}
	return append(burst, q.extras(now, p, first)...)
}

// extras are datagrams that carry no operations: parts of a list that the peer lacks, and one of a newer version. First is
// the number of the next operation.
func (q *Member) extras(now Instant, p *peer, first uint32) []*Datagram {
	var extras []*Datagram
	next := func() *Datagram {
		d := q.heartbeat(now, p)
		if q.session(p) {
			d.First = first
		}
		extras = append(extras, d)
		return d
	}
	if p.version < q.version && (p.shown < maxShown || now >= p.shownAt+showAgain) && q.session(p) {
		p.shown, p.shownAt = p.shown+1, now
		next().Version = q.version
	}
	names := q.memberships.known[p.lacking]
	if p.lacking == 0 || p.version < versionParts || len(names) == 0 || len(names) > 1<<16-1 {
		return extras
	}
	for range maxParts {
		if p.part >= len(names) {
			p.part = 0
		}
		d := next()
		d.ListOf, d.Offset, d.Total = p.lacking, uint16(p.part), uint16(len(names))
		size := d.size()
		for p.part < len(names) && (len(d.List) == 0 || size+2+len(names[p.part]) <= maxSent) {
			size += 2 + len(names[p.part])
			d.List = append(d.List, names[p.part])
			p.part++
		}
		if p.part == len(names) {
			break // the rest comes again with the next heartbeat, if some was lost
		}
	}
	return extras
}

// session reports whether there is one; else what is in out is of a former one.
func (q *Member) session(p *peer) bool { return p.incarnation == p.greeting.Incarnation }

// heartbeat is a datagram without operations.
func (q *Member) heartbeat(now Instant, p *peer) *Datagram {
	q.stamp = max(q.stamp+1, uint64(now))
	d := &Datagram{
		From: q.self, To: p.name, Stamp: stamp{p.self, q.stamp}, Echo: p.greeting, Draining: q.draining || q.unheard,
		Lists: q.memberships.list, Lacks: q.memberships.lacks(p.list), Version: p.version,
	}
	if q.session(p) {
		d.Acknowledged, d.Applied, d.Last, d.Revoked = p.stamp, p.applied, p.last(), p.revoked
	}
	return d
}

// acknowledged tells whether majorities of all lists have acknowledged this member lately, without which it can own nothing. One that hears
// only some members says that it is draining, so that these do not wait for it.
func (q *Member) acknowledged(now Instant) bool {
	by := func(name string) bool { return name == q.self || q.peers[name] != nil && q.peers[name].granting(now) }
	return !slices.ContainsFunc(q.memberships.list, func(id ListID) bool { return !majority(q.memberships.known[id], by) })
}

// outvoted reports whether most members have not heard this one for a while, and it hears one that most hear: what this one requests keeps
// votes from others, and it cannot own it. While no member has a majority, requests stay: they bring addresses back to their owners.
func (q *Member) outvoted(now Instant) bool {
	if !q.unheard || now < q.unheardSince+outvotedAfter {
		return false
	}
	for name, p := range q.peers {
		if q.counts(name) && !p.draining && q.Alive(now, name) {
			return true
		}
	}
	return false
}

// Hurried reports whether something is to be sent before the next heartbeat.
func (q *Member) Hurried() bool {
	for _, p := range q.peers {
		if p.urgent {
			return true
		}
	}
	return false
}

func (q *Member) hurry() {
	for _, p := range q.peers {
		p.urgent = true
	}
}
