package quorum

import "slices"

// Changed reports whether a look at all addresses, which is Reconcile and Tick, may find something else than the last one did.
// Hundreds of them ten times a second would cost more than all else that an agent does. It is to be asked at least as
// often as heartbeats are sent, and remembers what it has answered.
func (q *Member) Changed(now Instant) bool {
	changed := q.dirty || q.isWaking(now)
	q.dirty = q.isWaking(now) // once more behind it
	for _, p := range q.peers {
		before := p.liveness
		p.liveness = liveness{
			alive: q.Alive(now, p.name), granting: p.granting(now), draining: p.draining,
			incarnation: p.incarnation, lists: p.lists(),
		}
		changed = changed || p.liveness != before
	}
	return changed
}

// lists tells the lists of members that bind the peer, now and for what it has acknowledged.
func (p *peer) lists() uint64 {
	sum := uint64(len(p.list))
	for _, id := range append(p.list[:len(p.list):len(p.list)], p.bound...) {
		sum = sum*31 + uint64(id)
	}
	return sum
}

// Unheard are the members with a vote whose heartbeats do not arrive. An idle member expects none.
func (q *Member) Unheard(now Instant) []string {
	if q.isIdle(now) {
		return nil
	}
	return slices.DeleteFunc(q.Members(), func(name string) bool { return q.Alive(now, name) })
}
