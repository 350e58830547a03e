package quorum

import (
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
	nodes, counted := map[string]int{}, map[list]bool{} // with the number of addresses each has
	for _, c := range all {
		if l := listOf(c.names); !counted[l] {
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
	requested, able := q.requested(now), map[list][]string{}
	can := map[string]bool{q.self: !q.draining && !q.outvoted(now)}
	for name := range q.peers {
		can[name] = q.Alive(now, name) && !q.Draining(name)
	}
	for i, c := range claims {
		names, known := able[listOf(c.Candidates)] // a thousand claims may share a list of a thousand Nodes
		if len(c.Ending) > 0 {
			names = c.able(can)
		} else if !known {
			names = c.able(can)
			able[listOf(c.Candidates)] = names
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
