package quorum

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

const (
	// unrequestedFor is how long the elected Node may leave an address without an owner before another one may request it, too, and then one
	// more each time. An agent that has just heard of a Service requests it much earlier.
	unrequestedFor = time.Second
	// maxSubstitutes is how many may at once. After that the first ones make room for the next ones: were it all Nodes, the first agent that
	// hears of a hundred new Services would have them all.
	maxSubstitutes = 3
)

// unrequested is an address without an owner that keeps it, which the elected Node does not request.
type unrequested struct {
	since  Instant
	places int // for which names were ranked
	names  []string
}

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
		if c.owned() || chosen == "" || q.requestsOf(now, chosen, c.address) {
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

// untilSubstitute is the time until another Node may request an address.
func (q *Member) untilSubstitute(now Instant) time.Duration {
	next := lookAgain
	for _, u := range q.unrequested {
		next = min(next, unrequestedFor-(now-u.since)%unrequestedFor)
	}
	return next
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
