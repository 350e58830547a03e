package quorum

import (
	"slices"
	"time"
)

const (
	// lingerFor is how long heartbeats go on after the last address of level L2: what was deleted is often made again.
	lingerFor = time.Minute
	// gatherFor is how long one that has rested listens for the others before it wants an address: it knows of nobody who
	// is alive, and would run for all of them, as would everybody else.
	gatherFor = 300 * time.Millisecond
	// restStep is the time between two looks at what is at rest.
	restStep = time.Second
)

// rest is what a member knows of its own rest.
type rest struct {
	claimed Moment // when an address was last claimed
	woke    Moment // when the first one was, after a rest
}

// rests says whether heartbeats are of no use: no address was claimed for a while, nobody who is heard wants one, and
// nobody is bound by more than one list of members. Who rests says nothing but answers to those who do not.
func (q *Member) rests(now Moment) bool {
	if now < q.rest.claimed+q.LingerFor || len(q.wants) > 0 || len(q.memberships.list) > 1 {
		return false
	}
	for _, p := range q.peers {
		if now < p.heard+grantFor && (len(p.wants) > 0 || len(p.list) > 1) {
			return false
		}
	}
	return true
}

// claim is told of each look at claims, of which there may be none.
func (q *Member) claim(now Moment, claims []Claim) {
	if len(claims) == 0 {
		return
	}
	if q.rests(now) {
		q.rest.woke = now
	}
	q.rest.claimed = now
}

// Rhythm is the time until the next heartbeat. It is asked for behind Datagrams.
func (q *Member) Rhythm(now Moment) time.Duration {
	switch {
	case q.gathers(now):
		return HeartbeatInterval / 5
	case q.rests(now):
		return restStep
	}
	next := HeartbeatInterval
	for _, p := range q.peers {
		next = min(next, p.sent+HeartbeatInterval-now)
	}
	return max(next, time.Millisecond)
}

// gathers says whether this member has just ceased to rest, and others are to be heard yet.
func (q *Member) gathers(now Moment) bool {
	newest := q.memberships.known[q.memberships.newest()]
	return now < q.rest.woke+gatherFor && slices.ContainsFunc(newest, func(name string) bool { return !q.Alive(now, name) })
}
