package quorum

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
)

// ListID is a digest of a list of members, of which [IDOf] makes it.
type ListID uint64

// memberships are the lists of members that bind this one. A new list comes from the cluster, and not at one moment to
// all. Until every member of the newest has it, majorities of the older ones are needed, too; and a grant brings along
// the lists that bind its grantor. So two majorities always have a member in common.
type memberships struct {
	// list has the newest at its end. Since then it is there, and no other is gone.
	list  []ListID
	since Instant
	// known are the names in those lists and in those of others. The first one decides in case of a draw.
	known map[ListID][]string
	// gone are those of whom the cluster says that their Nodes are no more.
	gone map[string]bool
}

// IDOf digests the names in their order.
func IDOf(names []string) ListID {
	sum := sha256.Sum256([]byte(strings.Join(names, "\x00")))
	return ListID(binary.BigEndian.Uint64(sum[:]))
}

// SetMembers replaces the newest list of members. Its first name decides in case of a draw, so that the order has to be
// the same everywhere. All are these and those that had a vote before they were silent: a member that has just started,
// and knows nothing of older lists, needs a majority of them, too. Gone are former members whose Nodes the cluster has no
// more: they have no vote any longer, where one that is only silent may own something.
func (q *Member) SetMembers(now Instant, names, all []string, gone map[string]bool) {
	m := &q.memberships
	q.SetGone(now, gone)
	if len(m.list) == 0 && len(all) > len(names) {
		q.adopt(now, all)
	}
	if IDOf(names) != m.newest() {
		q.adopt(now, names)
		for _, name := range names {
			q.bind(q.peers[name])
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

// bind takes over the lists that bind a member of the newest, unless a majority of each is in the newest: without them
// this member could own an address as soon as that member, its grants and its lists do not report.
func (q *Member) bind(p *peer) {
	m := &q.memberships
	if p == nil || slices.Equal(p.list, m.list) || !slices.Contains(m.known[m.newest()], p.name) {
		return
	}
	for _, id := range p.list {
		if m.known[id] != nil && !slices.Contains(m.list, id) && !m.covered(id) {
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
	keep := map[string]bool{}
	for _, name := range q.memberships.everybody() {
		keep[name] = true
	}
	for _, g := range q.grants {
		keep[g.owner] = true
	}
	used := map[ListID]bool{}
	for name, p := range q.peers {
		if !keep[name] && now > p.heard+q.forgetAfter {
			delete(q.peers, name)
			q.incarnation++
			for _, r := range q.requests {
				delete(r.granted, name)
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

func (m *memberships) newest() ListID {
	if len(m.list) == 0 {
		return 0
	}
	return m.list[len(m.list)-1]
}

// majority reports whether the grantors are one in each of the lists.
func (m *memberships) majority(lists [][]ListID, grantors map[string]bool) bool {
	if len(m.list) == 0 {
		return false
	}
	decided := map[ListID]bool{} // hundreds of grantors have the same lists
	for _, list := range lists {
		for _, id := range list {
			if decided[id] {
				continue
			}
			names, known := m.known[id]
			if !known || !majority(names, func(name string) bool { return grantors[name] }) {
				return false
			}
			decided[id] = true
		}
	}
	return true
}

// majority of the names, or a half with the first of them.
func majority(names []string, in func(string) bool) bool {
	count := 0
	for _, name := range names {
		if in(name) {
			count++
		}
	}
	return 2*count > len(names) || 2*count == len(names) && len(names) > 0 && in(names[0])
}

// covered reports whether a majority of the list is in the newest, without those whose Nodes are gone. A list that is not
// known is not covered.
func (m *memberships) covered(id ListID) bool {
	names, known := m.known[id]
	left := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return m.gone[name] })
	newest := m.known[m.newest()]
	return known && (len(left) == 0 || majority(left, func(name string) bool { return slices.Contains(newest, name) }))
}

// retire forgets each older list of which a majority is in the newest, once every member of the newest has had that for as
// long as a grant is good: whoever has a majority of the older list then has the grant of a member that knows the newest.
func (q *Member) retire(now Instant) {
	m := &q.memberships
	if len(m.list) < 2 || now < m.since+grantFor {
		return
	}
	for _, name := range m.known[m.newest()] {
		if name == q.self {
			continue
		}
		p := q.peers[name]
		if p == nil || !q.Alive(now, name) || p.newest() != m.newest() || now < p.since+grantFor || m.lacks(p.list) != 0 {
			return
		}
		q.bind(p)
	}
	left := slices.DeleteFunc(slices.Clone(m.list), func(id ListID) bool { return id != m.newest() && m.covered(id) })
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

// everybody is in one of the lists.
func (m *memberships) everybody() []string {
	var names []string
	for _, id := range m.list {
		names = append(names, m.known[id]...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
