package quorum

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// unrequestedFor is how long the elected Node may leave an address without an owner before another one may request it, too, and then one more
// each time. An agent that has just heard of a Service requests it much earlier.
const unrequestedFor = 2 * time.Second

// substitutes are the Nodes that may request addresses which the elected one does not request: its agent may not know of the Service, since
// no API server answers it; and members that do not hear each other may all have elected another one, since by what each hears the
// others have less than their share. The elected one stays elected: members that remember differently do not wait for each other.
//
// They are the first ones by score, one more for each [unrequestedFor], and none behind one that requests the address.
func (q *Member) substitutes(now Instant, all []candidates, elected map[netip.Addr]string, requested map[netip.Addr]demand) map[netip.Addr][]string {
	var substitutes map[netip.Addr][]string
	for _, c := range all {
		chosen := elected[c.address]
		if requested[c.address].owner != "" || chosen == "" || q.requestsOf(now, chosen, c.address) {
			delete(q.unrequested, c.address)
			continue
		}
		since, known := q.unrequested[c.address]
		if !known {
			q.unrequested[c.address], since = now, now
		}
		places := int((now - since) / unrequestedFor)
		if places == 0 {
			continue
		}
		if substitutes == nil {
			substitutes = map[netip.Addr][]string{}
		}
		names := c.ranked()
		names = names[:min(places, len(names))]
		if i := slices.IndexFunc(names, func(name string) bool { return q.requestsOf(now, name, c.address) }); i >= 0 {
			names = names[:i+1]
		}
		substitutes[c.address] = names
	}
	return substitutes
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
	names := slices.Clone(c.names)
	slices.SortFunc(names, func(a, b string) int {
		if first := slices.Contains(c.preferred, a); first != slices.Contains(c.preferred, b) {
			if first {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(score(c.address, b), score(c.address, a)), cmp.Compare(a, b))
	})
	return names
}
