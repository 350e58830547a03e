package quorum

import (
	"hash/fnv"
	"net/netip"
	"slices"
)

// contest is an address with the Nodes that can take it now, and the one that has it, if any.
type contest struct {
	address    netip.Addr
	candidates []string
	owner      string
}

// elect says which Node is to have each address. Who has one keeps it as long as it can, since each move interrupts
// connections. The others go to the Node with the highest score (rendezvous hashing: the death of a Node moves what it
// had, and nothing else) of those that have not yet ceil(addresses/nodes)+1.
func elect(contests []contest) map[netip.Addr]string {
	nodes := map[string]int{} // with the number of addresses each has
	for _, c := range contests {
		for _, name := range c.candidates {
			nodes[name] = 0
		}
	}
	elected := make(map[netip.Addr]string, len(contests))
	for _, c := range contests {
		if c.owner != "" && slices.Contains(c.candidates, c.owner) {
			elected[c.address] = c.owner
			nodes[c.owner]++
		}
	}
	if len(nodes) == 0 {
		return elected
	}
	limit := (len(contests)+len(nodes)-1)/len(nodes) + 1
	for _, c := range contests {
		if elected[c.address] != "" || len(c.candidates) == 0 {
			continue
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
func best(c contest, may func(string) bool) string {
	chosen, highest := "", uint64(0)
	for _, name := range c.candidates {
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

// Pursue asks for what this member is elected for, and gives up what it is not. What it owns it keeps until the one that
// is elected waits for it, so that nobody goes without an answer meanwhile.
func (q *Member) Pursue(now Moment, claims []Claim) {
	q.claim(now, claims)
	contests := make([]contest, len(claims))
	can := map[string]bool{}
	for name := range q.peers {
		can[name] = q.Alive(now, name) && !q.Draining(name)
	}
	can[q.self] = !q.draining
	for i, c := range claims {
		contests[i] = contest{address: c.Address, owner: q.Owner(now, c.Address), candidates: c.able(can)}
	}
	elected, gathers := elect(contests), q.gathers(now)
	claimed := map[netip.Addr]bool{}
	for i, c := range claims {
		claimed[c.Address] = true
		w := q.wants[c.Address]
		switch {
		case w == nil && (gathers || c.Early && slices.Contains(c.Candidates, contests[i].owner)):
		case elected[c.Address] == q.self:
			q.Want(now, c.Address)
		case w == nil:
		case !w.owns, !slices.Contains(c.Candidates, q.self) && elected[c.Address] == "", q.Waiting(now, c.Address):
			q.Drop(now, c.Address)
		}
	}
	for address := range q.wants {
		if !claimed[address] {
			q.Drop(now, address)
		}
	}
}
