package relay

import (
	"cmp"
	"hash/fnv"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// avoidTime is how long an endpoint that could not be reached comes behind the others. Then one connection tries it.
const avoidTime = 10 * time.Second

// failures remembers which endpoints could not be reached, and when that was last tried.
type failures struct {
	mu sync.Mutex
	at map[netip.AddrPort]time.Time
}

// order says in which order a connection tries endpoints: for a sticky client the same at each time and on each Node,
// for others at random; those that have failed lately at the end, the one first that did so longest ago.
func (f *failures) order(now time.Time, front *Frontend, client netip.Addr) []netip.AddrPort {
	list := slices.Clone(front.Endpoints)
	if front.Sticky {
		slices.SortFunc(list, func(a, b netip.AddrPort) int { return cmp.Compare(score(client, b), score(client, a)) })
	} else {
		rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	avoided := func(e netip.AddrPort) time.Time {
		if at := f.at[e]; now.Sub(at) < avoidTime {
			return at
		}
		return time.Time{}
	}
	slices.SortStableFunc(list, func(a, b netip.AddrPort) int { return avoided(a).Compare(avoided(b)) })
	return list
}

// score is that of rendezvous hashing: an endpoint that comes or goes moves its own clients only. The hash is FNV-1a
// with MurmurHash3's finalizer, as for owners of addresses.
func score(client netip.Addr, endpoint netip.AddrPort) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(append(client.AsSlice(), endpoint.String()...)) // it never fails
	x := h.Sum64()
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// trying keeps other connections from an endpoint that has failed, as long as one tries it again.
func (f *failures) trying(now time.Time, endpoint netip.AddrPort) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, failed := f.at[endpoint]; failed {
		f.at[endpoint] = now
	}
}

// tried notes whether an endpoint was reached.
func (f *failures) tried(now time.Time, endpoint netip.AddrPort, reached bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if reached {
		delete(f.at, endpoint)
	} else {
		f.at[endpoint] = now
	}
}

// keep forgets endpoints that are gone: their addresses will be other pods'.
func (f *failures) keep(there map[netip.AddrPort]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for endpoint := range f.at {
		if !there[endpoint] {
			delete(f.at, endpoint)
		}
	}
}
