package quorum

import (
	"slices"
	"time"
)

const (
	// lingerFor is how long heartbeats go on after the last address of level L2: what was deleted is often made again.
	lingerFor = time.Minute
	// wakeFor is how long a member that was idle listens for the others before it requests an address: it knows of no
	// other member that is alive, and would request all of them, as would every other member.
	wakeFor = 300 * time.Millisecond
	// idleInterval is the time between two looks of an idle member.
	idleInterval = time.Second
)

// idleState is what a member remembers in order to become idle, and to wake.
type idleState struct {
	claimed Instant // when an address was last claimed
	woke    Instant // when the first one was, after the member was idle
	// awaited are the others from which it wants to hear before it chooses.
	awaited []string
}

// isIdle reports whether heartbeats are of no use: no address was claimed for a while, no member that is alive requests one,
// and none is bound by more than one list of members. An idle member only answers members that are not idle.
func (q *Member) isIdle(now Instant) bool {
	if now < q.idle.claimed+q.LingerFor || len(q.requests) > 0 || len(q.memberships.list) > 1 {
		return false
	}
	for _, p := range q.peers {
		if now < p.heard+grantFor && (len(p.requests) > 0 || len(p.list) > 1) {
			return false
		}
	}
	return true
}

// noteClaims is called with each look at claims, of which there may be none.
func (q *Member) noteClaims(now Instant, claims []Claim) {
	if len(claims) == 0 {
		return
	}
	if q.isIdle(now) {
		q.idle.woke, q.idle.awaited = now, q.awaited(claims)
	}
	q.idle.claimed = now
}

// UntilHeartbeat is the time until the next heartbeat. It is called after Datagrams.
func (q *Member) UntilHeartbeat(now Instant) time.Duration {
	switch {
	case q.isWaking(now):
		return HeartbeatInterval / 5
	case q.isIdle(now):
		return idleInterval
	}
	next := HeartbeatInterval
	for _, p := range q.peers {
		if q.speaks(now, p) {
			next = min(next, p.sent+HeartbeatInterval-now)
		}
	}
	return max(next, time.Millisecond)
}

// isWaking reports whether this member was idle until just now, and has not received heartbeats of all others yet.
func (q *Member) isWaking(now Instant) bool {
	return now < q.idle.woke+wakeFor && slices.ContainsFunc(q.idle.awaited, func(name string) bool {
		return !q.Alive(now, name) || !q.counts(name) && q.Draining(name) // not heard by a majority yet
	})
}

// awaited are those with a vote. Of one that has a vote itself these are the candidates, too, so that it does not choose the few that it
// hears first; it speaks to them, as they may not know of the claims yet.
func (q *Member) awaited(claims []Claim) []string {
	awaited := slices.Clone(q.memberships.known[q.memberships.newest()])
	if !q.counts(q.self) {
		return awaited
	}
	seen := map[List]bool{}
	for _, c := range claims {
		if l := ListOf(c.Candidates); !seen[l] {
			seen[l] = true
			awaited = append(awaited, c.Candidates...)
		}
	}
	slices.Sort(awaited)
	awaited = slices.Compact(awaited)
	for _, name := range awaited {
		q.peer(name)
	}
	return awaited
}
