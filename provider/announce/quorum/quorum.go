// Package quorum decides which Node owns an address, so that never two own one. It is pure: time and datagrams are passed in.
//
// Start at [Member], which each agent has one of: election.go says which Node should have an address, and quorum.go and
// seats.go see to it that one at most has it. members.go says whose votes count, while Nodes come and go.
//
// Reads: claims, lists of members, datagrams of other members. Writes: datagrams, and what a Node reports of its lists.
// Running it twice: a Member remembers nothing of its former life; [Bound] gives it the lists that bound that.
// It will not: open a socket, read a clock, or know of Kubernetes more than the form of a report.
package quorum

import (
	"net/netip"
	"time"
)

const (
	// HeartbeatInterval is that of datagrams to every member. What changes is sent at once, too.
	HeartbeatInterval = 100 * time.Millisecond
	// aliveFor is how long a member counts as alive after it was heard.
	aliveFor = 700 * time.Millisecond
	// ownFor is how long an owner may rely on a grant after it sent the heartbeat which the grantor acknowledged.
	ownFor = 700 * time.Millisecond
	// grantFor is how long a grantor gives the address to nobody else after it last heard the owner. It began to wait
	// after the owner sent, so that the difference to ownFor is for clocks that run differently, and for nothing else.
	grantFor = 1100 * time.Millisecond
	// retryAfter is how long a Node waits for a majority before it makes room for another that waits, too.
	retryAfter = 400 * time.Millisecond
	// forgetAfter is how long one that is no member was not heard when it is forgotten. It is more than grantFor.
	forgetAfter = time.Minute
)

// Moment is a reading of a clock that only goes forward, and that goes on while the machine sleeps.
type Moment = time.Duration

// Member says which addresses it owns, so that never two own one. It is a state machine: time and datagrams
// are passed in. An address belongs to the member to which a majority of the members has granted it, as long as that
// member knows that each of these heard it lately ([ownFor]); a grantor keeps its word for longer ([grantFor]).
//
// One goroutine at a time may use it.
type Member struct {
	// LingerFor is how long heartbeats go on after the last address. Default: a minute.
	LingerFor time.Duration

	self        string
	incarnation uint64
	started     Moment
	forgetAfter time.Duration
	rest        rest
	stamp       uint64 // of the last datagram
	draining    bool
	memberships memberships
	peers       map[string]*peer
	seats       map[netip.Addr]*seat
	wants       map[netip.Addr]*want
	order       uint64 // of arrival of wants
	underway    int    // maxUnderway; less in tests
	version     byte   // versionNow; less in tests
	stirred     bool   // something was said of an address, or of members, since the last look
}

// seat is what this member has granted.
type seat struct {
	owner string
	// number is that of the owner's want.
	number uint32
	// orphan is the grant of an owner's former incarnation, which ends at until.
	orphan bool
	until  Moment
}

// want is an address that this member wants.
type want struct {
	since   Moment
	order   uint64
	owns    bool              // and has said so
	numbers map[string]uint32 // of the operation that asked a peer
	granted map[string]bool   // by peers
}

// New starts a member. Its incarnation is another one at each start, and greater if the clock allows.
func New(self string, incarnation uint64, now Moment) *Member {
	return &Member{
		self: self, incarnation: incarnation, started: now, forgetAfter: forgetAfter, underway: maxUnderway, version: versionNow,
		rest: rest{claimed: now}, LingerFor: lingerFor,
		memberships: memberships{known: map[ListID][]string{}, gone: map[string]bool{}},
		peers:       map[string]*peer{}, seats: map[netip.Addr]*seat{}, wants: map[netip.Addr]*want{},
	}
}

// SetDraining tells others to take what this member owns.
func (q *Member) SetDraining(draining bool) {
	if q.draining != draining {
		q.draining, q.stirred = draining, true
		q.hurry()
	}
}

// Want asks all members for the address.
func (q *Member) Want(now Moment, address netip.Addr) {
	if q.wants[address] != nil {
		return
	}
	q.order++
	q.stirred = true
	q.wants[address] = &want{since: now, order: q.order, numbers: map[string]uint32{}, granted: map[string]bool{}}
	for _, p := range q.peers {
		q.ask(p, address)
	}
	q.settle(now, address)
}

// ask puts the want to a peer with which there is a session.
func (q *Member) ask(p *peer, address netip.Addr) {
	if p.incarnation != 0 {
		q.wants[address].numbers[p.name] = p.push(operation{kind: opWant, address: address})
	}
}

// Drop gives the address back, from this moment on.
func (q *Member) Drop(now Moment, address netip.Addr) {
	if q.wants[address] == nil {
		return
	}
	delete(q.wants, address)
	q.stirred = true
	for _, p := range q.peers {
		if p.incarnation != 0 {
			p.push(operation{kind: opDrop, address: address})
		}
	}
	if s := q.seats[address]; s != nil && s.owner == q.self {
		delete(q.seats, address)
	}
	q.settle(now, address)
}

// Owns says whether this member owns the address now.
func (q *Member) Owns(now Moment, address netip.Addr) bool {
	w := q.wants[address]
	if w == nil {
		return false
	}
	grantors := map[string]bool{}
	if s := q.seats[address]; s != nil && s.owner == q.self {
		grantors[q.self] = true
	}
	bound := [][]ListID{q.memberships.list}
	for name := range w.granted {
		if p := q.peers[name]; p.granting(now) {
			grantors[name] = true
			bound = append(bound, p.bound)
		}
	}
	return q.memberships.majority(bound, grantors)
}

// Owner is who owns the address, or says so; empty: nobody that is alive.
func (q *Member) Owner(now Moment, address netip.Addr) string {
	if w := q.wants[address]; w != nil && w.owns {
		return q.self
	}
	for name, p := range q.peers {
		if p.wants[address].owns && q.Alive(now, name) {
			return name
		}
	}
	return ""
}

// Waiting says whether another member that is alive waits for the address.
func (q *Member) Waiting(now Moment, address netip.Addr) bool {
	for name, p := range q.peers {
		if _, wants := p.wants[address]; wants && q.Alive(now, name) {
			return true
		}
	}
	return false
}

// Alive says whether a member was heard lately, and has heard this one.
func (q *Member) Alive(now Moment, name string) bool {
	p := q.peers[name]
	return name == q.self || p != nil && p.incarnation != 0 && now < p.heard+aliveFor
}

// Draining says whether a member gives away what it owns.
func (q *Member) Draining(name string) bool {
	if name == q.self {
		return q.draining
	}
	p := q.peers[name]
	return p != nil && p.draining
}

// Tick does what time brings. It is called behind Pursue and before Datagrams, and says when to look at all addresses
// again though nothing has changed.
func (q *Member) Tick(now Moment) time.Duration {
	q.retire(now)
	next := lookAgain
	for address, w := range q.wants {
		owns := q.Owns(now, address)
		switch {
		case owns && !w.owns:
			w.owns = true
			q.tell(operation{kind: opOwn, address: address})
		case !owns:
			w.owns = false
			q.yield(now, address, w)
			next = min(next, w.since+retryAfter-now, q.grantable(now, address))
		}
	}
	for _, p := range q.peers {
		if !q.Alive(now, p.name) {
			continue // it is given nothing, and what it had comes to those that want it
		}
		for address := range p.wants {
			if s := q.seats[address]; s == nil || s.owner != p.name {
				q.settle(now, address)
				next = min(next, q.grantable(now, address))
			}
		}
	}
	return max(next, HeartbeatInterval/5)
}

// yield makes room where members have split over an address: the one that is not the first among those that wait gives
// its grants back for a while.
func (q *Member) yield(now Moment, address netip.Addr, w *want) {
	if now < w.since+retryAfter {
		q.settle(now, address)
		return
	}
	w.since = now
	if q.Owner(now, address) == "" {
		for name, p := range q.peers {
			if _, wants := p.wants[address]; wants && q.Alive(now, name) && name < q.self {
				q.Drop(now, address) // the next election wants it again, if this member is still to have it
				return
			}
		}
	}
	q.settle(now, address)
}

// tell sends an operation to all.
func (q *Member) tell(op operation) {
	for _, p := range q.peers {
		if p.incarnation != 0 {
			p.push(op)
		}
	}
}
