package quorum

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
)

// candidates are the Nodes that can take an address now, and its owner, if any.
type candidates struct {
	address netip.Addr
	names   []string
	owner   string
	// preferred are those of names that are chosen before others, and returning those of them that take the address from an
	// owner that is not preferred.
	preferred, returning []string
}

// owned tells whether there is an owner that can keep the address.
func (c candidates) owned() bool { return c.owner != "" && slices.Contains(c.names, c.owner) }

// keeps tells whether it does.
func (c candidates) keeps() bool {
	return c.owned() && (len(c.returning) == 0 || slices.Contains(c.preferred, c.owner))
}

// elect says which Node is to have each address. Who has one keeps it as long as it can, since each move interrupts
// connections; only preferred Nodes take it from others. The others go to the Node with the highest score (rendezvous hashing: the death
// of a Node moves what it had, and nothing else) of those that have not yet ceil(addresses/nodes)+1.
func elect(all []candidates) map[netip.Addr]string {
	nodes, counted := map[string]int{}, map[List]bool{} // with the number of addresses each has
	for _, c := range all {
		if l := ListOf(c.names); !counted[l] {
			counted[l] = true
			for _, name := range c.names {
				nodes[name] = 0
			}
		}
	}
	elected := make(map[netip.Addr]string, len(all))
	for _, c := range all {
		if c.owned() {
			nodes[c.owner]++
		}
		if c.keeps() {
			elected[c.address] = c.owner
		}
	}
	if len(nodes) == 0 {
		return elected
	}
	limit := (len(all)+len(nodes)-1)/len(nodes) + 1
	choose := func(c candidates, names []string) {
		chosen := best(c.address, names, func(name string) bool { return nodes[name] < limit })
		if chosen == "" {
			chosen = best(c.address, names, func(string) bool { return true }) // few may have many addresses: they do, then
		}
		elected[c.address] = chosen
		nodes[chosen]++
	}
	for _, c := range all {
		switch {
		case c.owned() || len(c.names) == 0:
		case len(c.preferred) > 0:
			choose(c, c.preferred)
		default:
			choose(c, c.names)
		}
	}
	// Who returns is a matter of what each member remembers. It decides about nothing that has no owner: members that remember differently
	// would all wait for each other.
	for _, c := range all {
		if c.owned() && !c.keeps() {
			choose(c, c.returning)
		}
	}
	return elected
}

// best is the candidate with the highest score among those that may.
func best(address netip.Addr, names []string, may func(string) bool) string {
	chosen, highest := "", uint64(0)
	for _, name := range names {
		if s := score(address, name); may(name) && (chosen == "" || s > highest || s == highest && name < chosen) {
			chosen, highest = name, s
		}
	}
	return chosen
}

// Reconcile requests the addresses that this member is elected for, and drops the others. What it owns it keeps until the
// elected member waits for it, so that clients get answers meanwhile. A member without a vote is told for which it is elected.
func (q *Member) Reconcile(now Instant, claims []Claim) {
	q.noteClaims(now, claims)
	if guides := q.guides(now); q.follows(now, guides) {
		clear(q.unrequested)
		q.follow(now, guides, claims)
	} else {
		q.choose(now, claims)
	}
	claimed := map[netip.Addr]bool{}
	for _, c := range claims {
		claimed[c.Address] = true
	}
	maps.DeleteFunc(q.unrequested, func(address netip.Addr, _ *unrequested) bool { return !claimed[address] })
	maps.DeleteFunc(q.able, func(address netip.Addr, _ map[string]ability) bool { return !claimed[address] })
	maps.DeleteFunc(q.room, func(address netip.Addr, _ Instant) bool { return !claimed[address] })
	for _, address := range inOrder(q.requests, func(address netip.Addr) bool { return !claimed[address] }) {
		q.Drop(now, address)
	}
}

// choose elects by what this member hears of the others, and says so to those without a vote.
func (q *Member) choose(now Instant, claims []Claim) {
	all := make([]candidates, len(claims))
	requested, able := q.requested(now), map[List][]string{}
	can := map[string]bool{q.self: !q.draining && !q.outvoted(now)}
	for name := range q.peers {
		can[name] = q.Alive(now, name) && !q.Draining(name)
	}
	for i, c := range claims {
		names, known := able[ListOf(c.Candidates)] // a thousand claims may share a list of a thousand Nodes
		if len(c.Ending) > 0 {
			names = c.able(can)
		} else if !known {
			names = c.able(can)
			able[ListOf(c.Candidates)] = names
		}
		all[i] = candidates{address: c.Address, owner: requested[c.Address].owner, names: names}
		all[i].preferred, all[i].returning = c.preferred(names, q.steady(now, c, names))
	}
	elected, waking := elect(all), q.isWaking(now)
	var substitutes map[netip.Addr][]string
	if !waking {
		substitutes = q.substitutes(now, all, elected)
	}
	for _, c := range claims {
		r, chosen := q.requests[c.Address], elected[c.Address]
		switch {
		case r == nil && (waking || c.Early && slices.Contains(c.Candidates, requested[c.Address].owner)):
		case chosen == q.self, can[q.self] && slices.Contains(substitutes[c.Address], q.self):
			q.Request(now, c.Address)
		case r == nil:
		case !r.owns, !slices.Contains(c.Candidates, q.self) && chosen == "", requested[c.Address].by > 1:
			q.Drop(now, c.Address)
		}
	}
	if !waking {
		q.guide(now, claims, elected, substitutes, requested)
	}
}

// steady is for how long each able Node could have had the address without a gap, as this member sees it: it was alive and a candidate.
func (q *Member) steady(now Instant, c Claim, able []string) map[string]Instant {
	if len(c.Preferred) == 0 {
		delete(q.able, c.Address)
		return nil
	}
	since, before, steady := map[string]ability{}, q.able[c.Address], map[string]Instant{}
	for _, name := range able {
		incarnation := uint64(0) // this member's own does not count: it is another one whenever a peer is forgotten
		if p := q.peers[name]; p != nil {
			incarnation = p.incarnation
		}
		a, known := before[name]
		if !known || a.incarnation != incarnation {
			a = ability{incarnation, now}
		}
		since[name], steady[name] = a, now-a.since
	}
	q.able[c.Address] = since
	return steady
}

// maxSubstitutes is how many may at once. After that the first ones make room for the next ones: were it all Nodes, the first agent that
// hears of a hundred new Services would have them all.
const maxSubstitutes = 3

// substitutes are the Nodes that may request addresses which the elected one does not request: its agent may not know of the Service, since
// no API server answers it; and members that do not hear each other may all have elected another one, since by what each hears the
// others have less than their share. The elected one stays elected: members that remember differently do not wait for each other.
//
// They are the first ones by score, one more for each [unrequestedFor], and none behind one that requests the address. A member that most do
// not hear names none: it does not hear what the others request.
func (q *Member) substitutes(now Instant, all []candidates, elected map[netip.Addr]string) map[netip.Addr][]string {
	if q.unheard {
		clear(q.unrequested)
		return nil
	}
	var substitutes map[netip.Addr][]string
	for _, c := range all {
		chosen := elected[c.address]
		kept := c.owner != "" && chosen == c.owner // as nearly all are: then no list of Nodes is searched
		if kept || c.owned() || chosen == "" || q.requestsOf(now, chosen, c.address) {
			delete(q.unrequested, c.address)
			continue
		}
		u := q.unrequested[c.address]
		if u == nil {
			u = &unrequested{since: now}
			q.unrequested[c.address] = u
		}
		places := int((now - u.since) / unrequestedFor)
		if places == 0 {
			continue
		}
		if substitutes == nil {
			substitutes = map[netip.Addr][]string{}
		}
		if places != u.places { // once a second: a thousand Nodes are ranked
			u.places, u.names = places, window(c.ranked(), places)
		}
		names := u.names
		if i := slices.IndexFunc(names, func(name string) bool { return q.requestsOf(now, name, c.address) }); i >= 0 {
			names = names[:i+1]
		}
		substitutes[c.address] = names
	}
	return substitutes
}

// window are the last maxSubstitutes of the first names. Behind the last one it begins again.
func window(names []string, first int) []string {
	if first <= maxSubstitutes || len(names) <= maxSubstitutes {
		return names[:min(first, len(names), maxSubstitutes)]
	}
	start := (first - maxSubstitutes) % len(names)
	return slices.Concat(names, names)[start : start+maxSubstitutes]
}

// requestsOf reports whether a member that is alive requests the address, as far as this one hears.
func (q *Member) requestsOf(now Instant, name string, address netip.Addr) bool {
	if name == q.self {
		return q.requests[address] != nil
	}
	if !q.Alive(now, name) {
		return false
	}
	_, requests := q.peers[name].requests[address]
	return requests
}

// ranked are the Nodes in the order in which they are to have the address: preferred ones first, then by score.
func (c candidates) ranked() []string {
	type ranked struct {
		name  string
		score uint64
		last  bool // of those that are not preferred
	}
	preferred := map[string]bool{}
	for _, name := range c.preferred {
		preferred[name] = true
	}
	list := make([]ranked, 0, len(c.names))
	for _, name := range c.names {
		list = append(list, ranked{name, score(c.address, name), !preferred[name]})
	}
	slices.SortFunc(list, func(a, b ranked) int {
		if a.last != b.last {
			if b.last {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.name, b.name))
	})
	names := make([]string, 0, len(list))
	for _, r := range list {
		names = append(names, r.name)
	}
	return names
}
