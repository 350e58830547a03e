package announce

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
)

// membershipID is a digest of a list of members.
type membershipID uint64

// memberships are the lists of members that bind this one. A new list comes from the cluster, and not at one moment to
// all. Until a quorum has the newest, majorities of the older ones are needed, too; and a grant brings along the lists
// that bind its grantor. So two quorums always have a member in common, see ADR 17.
type memberships struct {
	// list has the newest at its end. Since then it is there, and nobody else is gone.
	list  []membershipID
	since Moment
	// known are the names in those lists and in those of others. The first one decides in case of a draw.
	known map[membershipID][]string
	// gone are those of whom the cluster says that their Nodes are no more.
	gone map[string]bool
}

func idOf(names []string) membershipID {
	sum := sha256.Sum256([]byte(strings.Join(names, "\x00")))
	return membershipID(binary.BigEndian.Uint64(sum[:]))
}

// SetMembers replaces the newest list of members. Its first name decides in case of a draw, so that the order has to be
// the same everywhere. All are these and those that had a vote before they were silent: a member that has just started,
// and knows nothing of older lists, needs a majority of them, too. Gone are former members whose Nodes the cluster has
// no more: they have no vote any longer, where one that is only silent may own something.
func (q *Quorum) SetMembers(now Moment, names, all []string, gone map[string]bool) {
	m := &q.memberships
	if !maps.Equal(m.gone, gone) {
		m.gone, m.since = gone, now // what those have granted counts for a while
	}
	if len(m.list) == 0 && len(all) > len(names) {
		q.adopt(now, all)
	}
	if idOf(names) != m.newest() {
		q.adopt(now, names)
		q.forget(now)
		q.hurry()
	}
}

// adopt puts a list at the end.
func (q *Quorum) adopt(now Moment, names []string) {
	m := &q.memberships
	id := idOf(names)
	m.known[id] = slices.Clone(names)
	m.list = append(slices.DeleteFunc(slices.Clone(m.list), func(old membershipID) bool { return old == id }), id)
	m.since = now
}

// forget drops what is known of those that are no members, and were not heard for [forgetAfter]. To one that comes back
// this member is another one than before, so that both begin anew: it may go on where it was.
func (q *Quorum) forget(now Moment) {
	keep := map[string]bool{}
	for _, name := range q.memberships.everybody() {
		keep[name] = true
	}
	for _, s := range q.seats {
		keep[s.owner] = true
	}
	used := map[membershipID]bool{}
	for name, p := range q.peers {
		if !keep[name] && now > p.heard+q.forgetAfter {
			delete(q.peers, name)
			q.incarnation++
			for _, w := range q.wants {
				delete(w.granted, name)
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
	maps.DeleteFunc(q.memberships.known, func(id membershipID, _ []string) bool { return !used[id] })
}

// Members are all that are in a list that binds this member.
func (q *Quorum) Members() []string { return q.memberships.everybody() }

func (m *memberships) newest() membershipID {
	if len(m.list) == 0 {
		return 0
	}
	return m.list[len(m.list)-1]
}

// carries says whether those that are in are enough of a list.
type carries func(names []string, in func(string) bool) bool

// agree says whether voters are a quorum: they carry each list that binds this member, or one of them. Who is bound by
// a list that they do not carry is left out, so that one who has learned of nothing for long does not spoil it.
func (m *memberships) agree(voters map[string][]membershipID, carry carries) bool {
	in := func(name string) bool { return len(voters[name]) > 0 }
	for {
		before, carried := len(voters), map[membershipID]bool{}
		lacks := func(id membershipID) bool {
			if _, asked := carried[id]; !asked {
				names, known := m.known[id]
				carried[id] = known && carry(names, in)
			}
			return !carried[id]
		}
		maps.DeleteFunc(voters, func(_ string, lists []membershipID) bool {
			return len(lists) == 0 || slices.ContainsFunc(lists, lacks)
		})
		if len(voters) == before { // else they may not carry what they did
			return before > 0 && !slices.ContainsFunc(m.list, lacks)
		}
	}
}

// majority of the names, or a half with the first of them.
func majority(names []string, in func(string) bool) bool {
	count := count(names, in)
	return 2*count > len(names) || 2*count == len(names) && len(names) > 0 && in(names[0])
}

func count(names []string, in func(string) bool) int {
	count := 0
	for _, name := range names {
		if in(name) {
			count++
		}
	}
	return count
}

// retire forgets older lists once a quorum has had the newest for as long as a grant is good. Whoever owns anything has
// a grant of one of them, which brings the newest along: older lists exclude nobody any more. Who is dead, or has not
// learned of the newest, is not waited for.
func (q *Quorum) retire(now Moment) {
	m := &q.memberships
	if len(m.list) < 2 || now < m.since+grantFor {
		return
	}
	voters := map[string][]membershipID{q.self: m.list}
	for name, p := range q.peers {
		if p.newest() == m.newest() && now >= p.since+grantFor && p.counts(now) {
			voters[name] = p.bound
		}
	}
	carry, newest := m.most, m.known[m.newest()]
	if !slices.ContainsFunc(newest, func(name string) bool { return voters[name] == nil }) {
		carry = m.others
	}
	if m.agree(voters, carry) {
		m.list = []membershipID{m.newest()}
		q.hurry()
	}
}

// most are more than half of those that are left of a list of which no more than one is gone. Each two such sets have a
// member in common that is left, though one of them was there before somebody went; with draws, or two gone, that is
// not so.
func (m *memberships) most(names []string, in func(string) bool) bool {
	left := m.left(names)
	return len(left)+1 >= len(names) && 2*count(left, in) > len(left)
}

// others are a majority of those that are left of a list, if there are any. That is enough where all members of the
// newest have it.
func (m *memberships) others(names []string, in func(string) bool) bool {
	left := m.left(names)
	return len(left) == 0 || majority(left, in)
}

// left are those whose Nodes are not gone.
func (m *memberships) left(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return m.gone[name] })
}

// lacks is the first of the lists that is not known; 0: none.
func (m *memberships) lacks(list []membershipID) membershipID {
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
