package quorum

import "time"

// lookAgain is the longest time between two looks at all addresses.
const lookAgain = time.Second

// pulse is what time and heartbeats change of what is known of a peer. What operations change they say themselves.
type pulse struct {
	alive, granting, draining bool
	incarnation, lists        uint64
}

// Changed says whether a look at all addresses, which is Pursue and Tick, may find something else than the last one did.
// Hundreds of them ten times a second would cost more than all else that an agent does. It is to be asked at least as
// often as heartbeats are sent, and remembers what it has answered.
func (q *Member) Changed(now Moment) bool {
	changed := q.stirred || len(q.memberships.list) > 1 || q.gathers(now)
	q.stirred = q.gathers(now) // once more behind it
	for _, p := range q.peers {
		before := p.pulse
		p.pulse = pulse{
			alive: q.Alive(now, p.name), granting: p.granting(now), draining: p.draining,
			incarnation: p.incarnation, lists: p.lists(),
		}
		changed = changed || p.pulse != before
	}
	return changed
}

// granting says whether grants of the peer count: it has heard this member lately.
func (p *peer) granting(now Moment) bool { return p.acknowledged > 0 && now < p.acknowledged+ownFor }

// lists tells the lists of members that bind the peer, now and for what it has acknowledged.
func (p *peer) lists() uint64 {
	sum := uint64(len(p.list))
	for _, id := range append(p.list[:len(p.list):len(p.list)], p.bound...) {
		sum = sum*31 + uint64(id)
	}
	return sum
}
