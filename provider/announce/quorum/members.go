package quorum

import (
	"maps"
	"net/netip"
	"slices"
)

// memberships are the lists of members that bind this one. A new list comes from the cluster, and not at one moment to
// all. Until majorities of the newest and of an older one have the newest, majorities of both are needed, and a grant brings
// along the lists that bind its grantor: joint consensus (Raft, section 6), so that two majorities always have a member in common.
type memberships struct {
	// list has the newest at its end. Since then it is there, and no other is gone.
	list  []ListID
	since Instant
	// known are the names in those lists and in those of others. The first one decides in case of a draw.
	known map[ListID][]string
	// gone are those of whom the cluster says that their Nodes are no more.
	gone map[string]bool
}

// SetMembers replaces the newest list of members. Its first name decides in case of a draw, so that the order has to be
// the same everywhere. All are these and those that had a vote before they were silent: a member that has just started,
// and knows nothing of older lists, needs a majority of them, too. Gone are former members whose Nodes the cluster has no
// more: they have no vote any longer, where one that is only silent may own something.
func (q *Member) SetMembers(now Instant, names, all []string, gone map[string]bool) {
	m := &q.memberships
	q.SetGone(now, gone)
	if len(m.list) == 0 && len(all) > 0 && !slices.Equal(all, names) {
		q.adopt(now, all)
	}
	if IDOf(names) != m.newest() {
		q.adopt(now, names)
		for _, name := range names {
			q.bind(now, q.peers[name])
		}
		q.forget(now)
		q.hurry()
	}
}

// SetGone replaces who has no vote any longer. It is part of SetMembers.
func (q *Member) SetGone(now Instant, gone map[string]bool) {
	if m := &q.memberships; !maps.Equal(m.gone, gone) {
		m.gone, m.since, q.dirty = gone, now, true // what those have granted counts for a while
	}
}

// Begin takes over lists that bind this member from its start on, the newest at the end. It comes before SetMembers.
func (q *Member) Begin(now Instant, lists [][]string) {
	for _, names := range lists {
		q.adopt(now, names)
	}
}

// Newest reports whether these names are the newest list.
func (q *Member) Newest(names []string) bool { return IDOf(names) == q.memberships.newest() }

// Lists are those that bind this member, the newest at the end.
func (q *Member) Lists() [][]string {
	var lists [][]string
	for _, id := range q.memberships.list {
		lists = append(lists, q.memberships.known[id])
	}
	return lists
}

// ListIDs are those of Lists. They may not be changed.
func (q *Member) ListIDs() []ListID { return q.memberships.list }

// bind takes over the lists that bind a member of the newest, or one that has the newest, as long as it is heard, unless they have
// ended: without them this member could own an address as soon as that member, its grants and its lists are not heard.
func (q *Member) bind(now Instant, p *peer) {
	m := &q.memberships
	if p == nil || slices.Equal(p.list, m.list) || !q.Alive(now, p.name) {
		return
	}
	if !slices.Contains(m.known[m.newest()], p.name) && (p.newest() != m.newest() || !q.counts(p.name)) {
		return
	}
	var holders map[string]bool
	for _, id := range p.list {
		if m.known[id] == nil || slices.Contains(m.list, id) {
			continue
		}
		if holders == nil {
			holders = q.holders(now)
		}
		if !m.ended(id, holders) {
			m.list, q.dirty = slices.Insert(slices.Clone(m.list), 0, id), true
			q.hurry()
		}
	}
}

// adopt puts a list at the end.
func (q *Member) adopt(now Instant, names []string) {
	m := &q.memberships
	id := IDOf(names)
	m.known[id] = slices.Clone(names)
	m.list = append(slices.DeleteFunc(slices.Clone(m.list), func(old ListID) bool { return old == id }), id)
	m.since, q.dirty = now, true
}

// forget drops what is known of those that are no members, and were not heard for [forgetAfter]. To one that comes back
// this member is another one than before, so that both begin again: it may go on where it was.
func (q *Member) forget(now Instant) {
	q.forgotten = now
	keep := map[string]bool{}
	for _, name := range q.memberships.everybody() {
		keep[name] = true
	}
	if q.isWaking(now) {
		for _, name := range q.idle.awaited {
			keep[name] = true
		}
	}
	used := map[ListID]bool{}
	for name, p := range q.peers {
		if !keep[name] && now > p.heard+q.forgetAfter {
			delete(q.peers, name)
			q.incarnation++
			maps.DeleteFunc(q.grants, func(_ netip.Addr, g *grant) bool { return g.owner == name }) // they are over
			for _, r := range q.requests {
				delete(r.granted, name)
				delete(r.numbers, name)
			}
			continue
		}
		for _, id := range slices.Concat(p.list, p.bound) {
			used[id] = true
		}
	}
	for _, id := range q.memberships.list {
		used[id] = true
	}
	maps.DeleteFunc(q.memberships.known, func(id ListID, _ []string) bool { return !used[id] })
}

// Members are all that are in a list that binds this member.
func (q *Member) Members() []string { return q.memberships.everybody() }

// Named are all that are in a list that this member knows. One that binds others may soon bind this member, too.
func (q *Member) Named() []string {
	names := slices.Concat(slices.Collect(maps.Values(q.memberships.known))...)
	slices.Sort(names)
	return slices.Compact(names)
}

func (m *memberships) newest() ListID {
	if len(m.list) == 0 {
		return 0
	}
	return m.list[len(m.list)-1]
}

// granted reports whether grants are a majority of each list that binds this member, and of each one that binds a grantor in one of
// them. Has says whose grants there are, and bound which lists they bring along.
func (m *memberships) granted(has func(string) bool, bound func(string) []ListID) bool {
	lists, decided := slices.Clone(m.list), map[ListID]bool{}
	for i := 0; i < len(lists); i++ {
		id := lists[i]
		names, known := m.known[id]
		switch {
		case decided[id]:
			continue
		case !known || !majority(names, has):
			return false
		}
		decided[id] = true
		for _, name := range names {
			if has(name) {
				lists = append(lists, bound(name)...)
			}
		}
	}
	return len(lists) > 0
}

// holders are the members that have had the newest list for as long as a grant is good, and had it lately: a datagram that has just arrived
// may be old, one that acknowledges a heartbeat is younger than that. Each grant of theirs that counts brings the list along.
func (q *Member) holders(now Instant) map[string]bool {
	m, holders := &q.memberships, map[string]bool{}
	for _, name := range m.everybody() {
		p := q.peers[name]
		if name == q.self && now >= m.since+grantFor || p != nil && p.granting(now) && p.newest() == m.newest() &&
			now >= p.since+grantFor && m.lacks(p.list) == 0 {
			holders[name] = true
		}
	}
	return holders
}

// ended reports whether an older list binds nobody any longer: majorities of it, without those whose Nodes are gone, and of the
// newest have had the newest for long enough, and an agent that starts finds it in two reports. A list that is not known has not ended.
func (m *memberships) ended(id ListID, holders map[string]bool) bool {
	names, known := m.known[id]
	holds := func(name string) bool { return holders[name] }
	left := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return m.gone[name] })
	if !known || len(left) > 1 && len(holders) < 2 {
		return false
	}
	return (len(left) == 0 || majority(left, holds)) && majority(m.known[m.newest()], holds)
}

// retire forgets the older lists that have ended: whoever has a majority of one of them then has the grant of a member that knows
// the newest.
func (q *Member) retire(now Instant) {
	m := &q.memberships
	if len(m.list) < 2 || now < m.since+grantFor {
		return
	}
	holders := q.holders(now)
	for _, name := range slices.Sorted(maps.Keys(holders)) {
		q.bind(now, q.peers[name])
	}
	left := slices.DeleteFunc(slices.Clone(m.list), func(id ListID) bool { return id != m.newest() && m.ended(id, holders) })
	if len(left) == len(m.list) {
		return
	}
	m.list, q.dirty = left, true
	q.forget(now)
	q.hurry()
}

// lacks is the first of the lists that is not known; 0: none.
func (m *memberships) lacks(list []ListID) ListID {
	for _, id := range list {
		if _, known := m.known[id]; !known {
			return id
		}
	}
	return 0
}

// counts reports whether the vote of the member does: it is in a list that binds this one.
func (q *Member) counts(name string) bool { return q.memberships.in(q.memberships.list, name) }

// in reports whether one of the lists, as far as they are known, has the name.
func (m *memberships) in(lists []ListID, name string) bool {
	return slices.ContainsFunc(lists, func(id ListID) bool { return slices.Contains(m.known[id], name) })
}

// everybody is in one of the lists, in the order of names.
func (m *memberships) everybody() []string {
	var names []string
	for _, id := range m.list {
		names = append(names, m.known[id]...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
