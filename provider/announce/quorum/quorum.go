// Package quorum decides which Node owns an address, so that never two own one. It is pure: time and datagrams are passed in.
//
// Start at [Member], which each agent has one of: election.go says which Node should have an address, and quorum.go and
// grants.go see to it that one at most has it. members.go says whose votes count, while Nodes come and go.
//
// Reads: claims, lists of members, datagrams of other members. Writes: datagrams, and what a Node reports of its lists.
// Running it twice: a Member remembers nothing of its former life; [Bound] gives it the lists that bound that.
// It will not: open a socket, read a clock, or know of Kubernetes more than the form of a report.
package quorum

import (
	"net/netip"
	"slices"
	"time"
)

const (
	// HeartbeatInterval is that of datagrams to every member. What changes is sent at once, too.
	HeartbeatInterval = 100 * time.Millisecond
	// aliveFor is how long a member counts as alive after it was heard.
	aliveFor = 700 * time.Millisecond
	// ownFor is how long an owner may rely on a grant after it sent the heartbeat which the grantor acknowledged.
	ownFor = 700 * time.Millisecond
	// grantFor is how long a grantor gives the address to no other after it last heard the owner. It began to wait
	// after the owner sent, so that the difference to ownFor is for clocks that run differently, and for nothing else.
	grantFor = 1100 * time.Millisecond
	// retryAfter is how long a Node waits for a majority before it makes room for another that waits, too.
	retryAfter = 400 * time.Millisecond
	// unrequestedFor is how long the elected Node may leave an address without an owner before another one may request it, too, and then one
	// more each time. An agent that has just heard of a Service requests it much earlier.
	unrequestedFor = time.Second
	// splitAfter is how long one that most hear waits for a majority before it makes room for others that it does not hear; up to a second
	// more, another one for each Node. No dead owner, and no member that starts, keeps its vote for as long.
	splitAfter = 5 * time.Second
	// outvotedAfter is how long a member that most do not hear keeps what it requests, though others have a majority.
	outvotedAfter = 1500 * time.Millisecond
	// forgetAfter is how long one that is no member was not heard when it is forgotten. It is more than grantFor.
	forgetAfter = time.Minute
	// lookAgain is the longest time between two looks at all addresses.
	lookAgain = time.Second
)

// Instant is a reading of a clock that only goes forward, and that goes on while the machine sleeps.
type Instant = time.Duration

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
	started     Instant
	forgetAfter time.Duration
	idle        idleState
	stamp       uint64 // of the last datagram
	draining    bool
	memberships memberships
	peers       map[string]*peer
	grants      map[netip.Addr]*grant
	requests    map[netip.Addr]*request
	// unheard says that no majority acknowledged this member when it sent its last datagrams, and unheardSince since when.
	unheard      bool
	unheardSince Instant
	// able says of addresses with preferred Nodes since when each Node could have them.
	able        map[netip.Addr]map[string]ability
	unrequested map[netip.Addr]*unrequested
	order       uint64 // of arrival of requests
	underway    int    // maxUnderway; less in tests
	version     byte   // versionNow; less in tests
	// room is when this member made room for others that are to have an address.
	room map[netip.Addr]Instant
	// forgotten is when it was last looked for members to forget.
	forgotten Instant
	dirty     bool // something has changed about an address, or about members, since the last look
}

// grant is an address that this member has granted.
type grant struct {
	owner string
	// number is that of the owner's request.
	number uint32
	// orphan is the grant of an owner's former incarnation, which ends at until.
	orphan bool
	until  Instant
}

// request is an address that this member requests.
type request struct {
	began   Instant // when it was requested, or was owned last
	since   Instant
	order   uint64
	owns    bool              // and has said so
	numbers map[string]uint32 // of the operation that asked a peer, of those that are known
	granted map[string]bool   // by peers
}

// ability is an incarnation of a member, and since when it could have an address.
type ability struct {
	incarnation uint64
	since       Instant
}

// unrequested is an address without an owner that keeps it, which the elected Node does not request.
type unrequested struct {
	since  Instant
	places int // for which names were ranked
	names  []string
}

// New starts a member. Its incarnation is another one at each start, and greater if the clock allows.
func New(self string, incarnation uint64, now Instant) *Member {
	return &Member{
		self: self, incarnation: incarnation, started: now, forgetAfter: forgetAfter, underway: maxUnderway, version: versionNow,
		idle: idleState{claimed: now}, LingerFor: lingerFor,
		memberships: memberships{known: map[ListID][]string{}, gone: map[string]bool{}},
		peers:       map[string]*peer{}, grants: map[netip.Addr]*grant{}, requests: map[netip.Addr]*request{},
		able: map[netip.Addr]map[string]ability{}, room: map[netip.Addr]Instant{}, unrequested: map[netip.Addr]*unrequested{},
	}
}

// SetDraining tells others to take what this member owns.
func (q *Member) SetDraining(draining bool) {
	if q.draining != draining {
		q.draining, q.dirty = draining, true
		q.hurry()
	}
}

// Request asks all members for the address.
func (q *Member) Request(now Instant, address netip.Addr) {
	if q.requests[address] != nil {
		return
	}
	q.order++
	q.dirty = true
	q.requests[address] = &request{began: now, since: now, order: q.order, numbers: map[string]uint32{}, granted: map[string]bool{}}
	for _, p := range q.peers {
		if p.asked {
			q.ask(p, address)
		}
	}
	q.settle(now, address)
}

// ask sends a request, and that the address is owned.
func (q *Member) ask(p *peer, address netip.Addr) {
	r := q.requests[address]
	r.numbers[p.name] = p.push(operation{kind: opRequest, address: address})
	if r.owns {
		p.push(operation{kind: opOwn, address: address})
	}
}

// Drop gives the address back, from this moment on.
func (q *Member) Drop(now Instant, address netip.Addr) {
	r := q.requests[address]
	if r == nil {
		return
	}
	delete(q.requests, address)
	q.dirty = true
	q.tell(r, operation{kind: opDrop, address: address})
	if g := q.grants[address]; g != nil && g.owner == q.self {
		delete(q.grants, address)
	}
	q.settle(now, address)
}

// Owns reports whether this member owns the address now.
func (q *Member) Owns(now Instant, address netip.Addr) bool {
	r := q.requests[address]
	if r == nil {
		return false
	}
	g := q.grants[address]
	has := func(name string) bool {
		if name == q.self {
			return g != nil && g.owner == q.self
		}
		return r.granted[name] && q.peers[name].granting(now)
	}
	return q.memberships.granted(has, func(name string) []ListID {
		if name == q.self {
			return nil
		}
		return q.peers[name].bound
	})
}

// Owner is who owns the address, or the first of those that say so; empty: no member that is alive.
func (q *Member) Owner(now Instant, address netip.Addr) string {
	if r := q.requests[address]; r != nil && r.owns {
		return q.self
	}
	first := ""
	for name := range q.peers {
		if (first == "" || name < first) && q.Claims(now, name, address) {
			first = name
		}
	}
	return first
}

// Claims reports whether a member that is alive says that it owns the address.
func (q *Member) Claims(now Instant, name string, address netip.Addr) bool {
	p := q.peers[name]
	return p != nil && p.requests[address].owns && q.Alive(now, name)
}

// Alive reports whether a member was heard lately, and has heard this one.
func (q *Member) Alive(now Instant, name string) bool {
	p := q.peers[name]
	return name == q.self || p != nil && p.incarnation != 0 && now < p.heard+aliveFor
}

// Draining reports whether a member gives away what it owns.
func (q *Member) Draining(name string) bool {
	if name == q.self {
		return q.draining
	}
	p := q.peers[name]
	return p != nil && p.draining
}

// Tick does what time brings. It is called after Reconcile and before Datagrams, and says when to look at all addresses
// again though nothing has changed.
func (q *Member) Tick(now Instant) time.Duration {
	q.retire(now)
	if now >= q.forgotten+q.forgetAfter {
		q.forget(now)
	}
	peers := q.everyPeer()
	for _, p := range peers {
		q.include(p)
	}
	next := lookAgain
	if wait := q.started + grantFor - now; wait > 0 {
		next = min(next, wait) // then it grants, and guides
	}
	if len(q.memberships.list) > 1 {
		next = min(next, HeartbeatInterval) // an older list may end
	}
	next = min(next, q.untilSubstitute(now))
	for _, address := range inOrder(q.requests, nil) {
		r := q.requests[address]
		owns := q.Owns(now, address)
		if owns {
			r.began = now
		}
		switch {
		case owns && !r.owns:
			r.owns = true
			q.tell(r, operation{kind: opOwn, address: address})
		case !owns:
			r.owns = false
			q.yield(now, address, r)
			next = min(next, r.since+retryAfter-now, q.grantable(now, address))
		}
	}
	for _, p := range peers {
		if !q.Alive(now, p.name) {
			continue // it is granted nothing, and what it had goes to those that request it
		}
		others := func(address netip.Addr) bool { g := q.grants[address]; return g == nil || g.owner != p.name }
		for _, address := range inOrder(p.requests, others) {
			q.settle(now, address)
			next = min(next, q.grantable(now, address))
		}
	}
	return max(next, HeartbeatInterval/5)
}

// untilSubstitute is the time until another Node may request an address.
func (q *Member) untilSubstitute(now Instant) time.Duration {
	next := lookAgain
	for _, u := range q.unrequested {
		next = min(next, unrequestedFor-(now-u.since)%unrequestedFor)
	}
	return next
}

// yield makes room where members have split over an address: the one that is not the first among those that wait gives
// its grants back for a while.
func (q *Member) yield(now Instant, address netip.Addr, r *request) {
	if now < r.since+retryAfter {
		q.settle(now, address)
		return
	}
	r.since = now
	if q.counts(q.self) && !q.unheard && now >= r.began+splitAfter+Instant(score(netip.Addr{}, q.self)%uint64(time.Second)) {
		q.Drop(now, address) // Reconcile requests it again: who gave it its vote has given that to another by then
		return
	}
	if guides := q.guides(now); len(guides) > 0 && !wanted(guides, address) {
		q.Drop(now, address)
		q.room[address] = now
		return
	}
	if q.Owner(now, address) == "" {
		for name, p := range q.peers {
			// A member without a vote that waits is wanted by most others, or makes room itself.
			if _, waits := p.requests[address]; waits && q.Alive(now, name) && !p.draining && (name < q.self || !q.counts(name)) {
				q.Drop(now, address) // Reconcile requests it again, if this member is still elected
				return
			}
		}
	}
	q.settle(now, address)
}

// tell sends an operation to those that were asked.
func (q *Member) tell(r *request, op operation) {
	for name := range r.numbers {
		q.peers[name].push(op)
	}
}

// inOrder are the addresses of which it is true (nil: all), always in the same order: with the same datagrams at the same times a
// member does the same, so that a history that went wrong can be repeated.
func inOrder[V any](all map[netip.Addr]V, is func(netip.Addr) bool) []netip.Addr {
	var some []netip.Addr
	for address := range all {
		if is == nil || is(address) {
			some = append(some, address)
		}
	}
	slices.SortFunc(some, netip.Addr.Compare)
	return some
}
