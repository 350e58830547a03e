package quorum

import (
	"hash/fnv"
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

// keeps tells whether the owner keeps the address.
func (c candidates) keeps() bool {
	return c.owner != "" && slices.Contains(c.names, c.owner) && (len(c.returning) == 0 || slices.Contains(c.preferred, c.owner))
}

// elect says which Node is to have each address. Who has one keeps it as long as it can, since each move interrupts
// connections; only preferred Nodes take it from others. The others go to the Node with the highest score (rendezvous hashing: the death
// of a Node moves what it had, and nothing else) of those that have not yet ceil(addresses/nodes)+1.
func elect(all []candidates) map[netip.Addr]string {
	nodes := map[string]int{} // with the number of addresses each has
	for _, c := range all {
		for _, name := range c.names {
			nodes[name] = 0
		}
	}
	elected := make(map[netip.Addr]string, len(all))
	for _, c := range all {
		if c.keeps() {
			elected[c.address] = c.owner
			nodes[c.owner]++
		}
	}
	if len(nodes) == 0 {
		return elected
	}
	limit := (len(all)+len(nodes)-1)/len(nodes) + 1
	for _, c := range all {
		if elected[c.address] != "" || len(c.names) == 0 {
			continue
		}
		switch {
		case len(c.returning) > 0:
			c.names = c.returning
		case len(c.preferred) > 0:
			c.names = c.preferred
		}
		chosen := best(c, func(name string) bool { return nodes[name] < limit })
		if chosen == "" {
			chosen = best(c, func(string) bool { return true }) // few may have many addresses: they do, then
		}
		elected[c.address] = chosen
		nodes[chosen]++
	}
	return elected
}

// best is the candidate with the highest score among those that may.
func best(c candidates, may func(string) bool) string {
	chosen, highest := "", uint64(0)
	for _, name := range c.names {
		if s := score(c.address, name); may(name) && (chosen == "" || s > highest || s == highest && name < chosen) {
			chosen, highest = name, s
		}
	}
	return chosen
}

// score is FNV-1a with MurmurHash3's finalizer, without which names that differ at their end have similar scores.
func score(address netip.Addr, node string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(append(address.AsSlice(), node...)) // it never fails
	x := h.Sum64()
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// Reconcile requests the addresses that this member is elected for, and drops the others. What it owns it keeps until the
// elected member waits for it, so that clients get answers meanwhile.
func (q *Member) Reconcile(now Instant, claims []Claim) {
	q.noteClaims(now, claims)
	all := make([]candidates, len(claims))
	can := map[string]bool{}
	for name := range q.peers {
		can[name] = q.Alive(now, name) && !q.Draining(name)
	}
	can[q.self] = !q.draining
	for i, c := range claims {
		all[i] = candidates{address: c.Address, owner: q.Owner(now, c.Address), names: c.able(can)}
		all[i].preferred, all[i].returning = c.preferred(all[i].names, q.steady(now, c, all[i].names))
	}
	elected, waking := elect(all), q.isWaking(now)
	claimed := map[netip.Addr]bool{}
	for i, c := range claims {
		claimed[c.Address] = true
		r := q.requests[c.Address]
		switch {
		case r == nil && (waking || c.Early && slices.Contains(c.Candidates, all[i].owner)):
		case elected[c.Address] == q.self:
			q.Request(now, c.Address)
		case r == nil:
		case !r.owns, !slices.Contains(c.Candidates, q.self) && elected[c.Address] == "", q.Waiting(now, c.Address):
			q.Drop(now, c.Address)
		}
	}
	for address := range q.able {
		if !claimed[address] {
			delete(q.able, address)
		}
	}
	for _, address := range inOrder(q.requests, func(address netip.Addr) bool { return !claimed[address] }) {
		q.Drop(now, address)
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
		incarnation := q.incarnation
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
