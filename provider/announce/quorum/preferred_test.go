package quorum

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"
)

// ownerOf is the member that has the address, as true time sees it. Empty: none.
func (w *world) ownerOf(address netip.Addr) string {
	for _, m := range w.members {
		if !m.off && m.quorum.Owns(w.clock(m), address) {
			return m.name
		}
	}
	return ""
}

// newPreferring has addresses for which the first member is preferred.
func newPreferring(t *testing.T, members, addresses int, returnAfter time.Duration) *world {
	t.Helper()
	w := newWorld(t, 5, members, addresses)
	for i := range w.claims {
		w.claims[i].Preferred, w.claims[i].ReturnAfter = w.names(1), returnAfter
	}
	for _, m := range w.members {
		m.quorum.SetMembers(w.clock(m), w.names(members), nil, nil)
	}
	return w
}

// TestQuorum_Preferred: a preferred member has the address while it may. When it fails, another has it at once; when it returns, it
// waits for its time, and no client is without an answer while the address moves back.
func TestQuorum_Preferred(t *testing.T) {
	const returnAfter = 3 * time.Second
	w := newPreferring(t, 3, 1, returnAfter)
	address, n0 := w.claims[0].Address, w.members[0]
	w.run(3 * time.Second)
	if got := w.ownerOf(address); got != "n0" {
		t.Fatalf("%q has the address, want the preferred n0", got)
	}
	n0.off = true
	w.run(1300 * time.Millisecond)
	if got := w.ownerOf(address); got == "" || got == "n0" {
		t.Fatalf("%q has the address after the preferred member failed", got)
	}
	w.restart(n0)
	n0.quorum.SetMembers(w.clock(n0), w.names(3), nil, nil)
	back := w.now
	for w.ownerOf(address) != "n0" {
		w.run(10 * time.Millisecond)
		if w.now > back+returnAfter+2*time.Second {
			t.Fatalf("it did not return to the preferred member in %s", w.now-back)
		}
	}
	if took := w.now - back; took < returnAfter-100*time.Millisecond {
		t.Errorf("it returned after %s, before the member was heard for %s", took, returnAfter)
	}
}

// TestQuorum_PreferredGap: the move back is planned, so that the time without an owner is one exchange of datagrams.
func TestQuorum_PreferredGap(t *testing.T) {
	w := newPreferring(t, 3, 1, time.Second)
	address, n0 := w.claims[0].Address, w.members[0]
	n0.off = true
	w.run(3 * time.Second)
	w.restart(n0)
	n0.quorum.SetMembers(w.clock(n0), w.names(3), nil, nil)
	gap, longest := time.Duration(0), time.Duration(0)
	for range 4000 {
		w.run(time.Millisecond)
		if w.ownerOf(address) == "" {
			gap += time.Millisecond
		} else {
			gap = 0
		}
		longest = max(longest, gap)
	}
	if got := w.ownerOf(address); got != "n0" || longest > 30*time.Millisecond {
		t.Errorf("%q has it, and no member had it for %s", got, longest)
	}
}

// TestQuorum_PreferredFlaps: a preferred member that comes and goes more often than its time never takes the address.
func TestQuorum_PreferredFlaps(t *testing.T) {
	w := newPreferring(t, 3, 1, 4*time.Second)
	address, n0 := w.claims[0].Address, w.members[0]
	n0.off = true
	w.run(3 * time.Second)
	for i := range 5 {
		w.restart(n0)
		n0.quorum.SetMembers(w.clock(n0), w.names(3), nil, nil)
		w.run(3 * time.Second)
		if got := w.ownerOf(address); got == "n0" || got == "" {
			t.Errorf("round %d: %q has the address", i, got)
		}
		n0.off = true
		w.run(time.Second)
	}
}

// TestElect_Preferred: what elect does with each of an owner's cases; several preferred Nodes share addresses as all Nodes would.
func TestElect_Preferred(t *testing.T) {
	one := netip.MustParseAddr("192.0.2.1")
	for _, tt := range []struct {
		name string
		c    candidates
		want string
	}{
		{"none has it", candidates{names: []string{"a", "b"}, preferred: []string{"b"}}, "b"},
		{"a preferred Node has it", candidates{names: []string{"a", "b"}, owner: "b", preferred: []string{"a", "b"}, returning: []string{"a"}}, "b"},
		{"another has it, and a preferred one is not back for long", candidates{names: []string{"a", "b"}, owner: "a", preferred: []string{"b"}}, "a"},
		{"another has it, and a preferred one is back", candidates{names: []string{"a", "b"}, owner: "a", preferred: []string{"b"}, returning: []string{"b"}}, "b"},
		{"no preferred Node can", candidates{names: []string{"a"}, owner: "b"}, "a"},
	} {
		tt.c.address = one
		if got := elect([]candidates{tt.c})[one]; got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	many := candidatesOf(100, nodeNames(10)...)
	for i := range many {
		many[i].preferred = []string{"worker-3", "worker-7"}
		many[i].returning = many[i].preferred
	}
	if got := loads(elect(many)); len(got) != 2 || got["worker-3"] < 30 || got["worker-7"] < 30 {
		t.Errorf("got %s", fmt.Sprint(got))
	}
}

// TestQuorum_PreferredHeardByFew: a preferred member that only the owner hears does not get the address, and the owner keeps it. A
// majority is needed to own it, and one that is not acknowledged by a majority says that it is draining.
func TestQuorum_PreferredHeardByFew(t *testing.T) {
	for _, members := range []int{5, 6, 7} {
		w := newPreferring(t, members, 20, time.Second)
		n0 := w.members[0]
		n0.off = true
		w.run(4 * time.Second)
		for i := 2; i < members; i++ {
			w.cut[[2]int{0, i}], w.cut[[2]int{i, 0}] = true, true
		}
		w.restart(n0)
		n0.quorum.SetMembers(w.clock(n0), w.names(members), nil, nil)
		w.run(10 * time.Second)
		for range 50 {
			w.run(100 * time.Millisecond)
			for _, c := range w.claims {
				if got := w.ownerOf(c.Address); got == "" || got == "n0" {
					t.Fatalf("%d members: %q has %s", members, got, c.Address)
				}
			}
		}
	}
}

// TestQuorum_PreferredCandidateFlaps: an endpoint of a preferred Node that comes and goes moves the address away once.
func TestQuorum_PreferredCandidateFlaps(t *testing.T) {
	w := newPreferring(t, 3, 1, time.Minute)
	address, all := w.claims[0].Address, w.claims[0].Candidates
	w.run(3 * time.Second)
	moves, last := 0, w.ownerOf(address)
	for i := range 30 {
		w.claims[0].Candidates = all[1-i%2:]
		for range 20 {
			w.run(100 * time.Millisecond)
			if now := w.ownerOf(address); now != "" && now != last {
				moves, last = moves+1, now
			}
		}
	}
	if moves > 1 {
		t.Errorf("%d moves in a minute, want one", moves)
	}
}

// TestQuorum_PreferredMany: a hundred addresses return at once, and datagrams overtake each other. Each address is without an owner for as
// long as it alone would be.
func TestQuorum_PreferredMany(t *testing.T) {
	for _, delay := range []time.Duration{time.Millisecond, 20 * time.Millisecond} {
		for seed := range uint64(5) {
			w := newPreferring(t, 3, 100, 2*time.Second)
			for _, m := range w.members {
				m.quorum.underway = maxUnderway // they are many
			}
			w.random, w.delay = rand.New(rand.NewPCG(seed, 3)), delay //nolint:gosec // the same each time
			n0 := w.members[0]
			w.run(3 * time.Second)
			n0.off = true
			w.run(4 * time.Second)
			w.restart(n0)
			n0.quorum.underway = maxUnderway
			n0.quorum.SetMembers(w.clock(n0), w.names(3), nil, nil)
			without, longest, back := map[netip.Addr]time.Duration{}, time.Duration(0), 0
			for step := range 8000 {
				w.run(time.Millisecond)
				back = 0
				for _, c := range w.claims {
					switch w.ownerOf(c.Address) {
					case "":
						without[c.Address] += time.Millisecond
						longest = max(longest, without[c.Address])
					case "n0":
						back++
						fallthrough
					default:
						without[c.Address] = 0
					}
				}
				if back == len(w.claims) {
					t.Logf("delay %s, seed %d: all are back after %d ms", delay, seed, step)
					break
				}
			}
			if back < len(w.claims) || longest > 10*delay+150*time.Millisecond {
				t.Errorf("delay %s, seed %d: %d are back, and one was without an owner for %s", delay, seed, back, longest)
			}
			t.Logf("delay %s, seed %d: longest %s", delay, seed, longest)
		}
	}
}

// TestQuorum_PreferredDisagree: one of two preferred Nodes knows that its endpoint ended for a moment, and the other one does not. When the
// owner fails, they do not wait for each other.
func TestQuorum_PreferredDisagree(t *testing.T) {
	w := newWorld(t, 1, 3, 1)
	for _, m := range w.members {
		m.quorum.SetMembers(w.clock(m), w.names(3), nil, nil)
	}
	c := &w.claims[0]
	c.Candidates, c.Preferred = []string{"n2"}, nil
	w.run(3 * time.Second)
	higher := w.members[0]
	if score(c.Address, "n1") > score(c.Address, "n0") {
		higher = w.members[1]
	}
	c.Candidates, c.Preferred, c.ReturnAfter = w.names(3), w.names(2), 20*time.Second
	w.run(10 * time.Second)
	higher.ending = []string{higher.name}
	w.run(1100 * time.Millisecond)
	higher.ending = nil
	w.run(12 * time.Second)
	if got := w.ownerOf(c.Address); got != "n2" {
		t.Fatalf("%q has the address: nothing is tested", got)
	}
	w.members[2].off = true
	w.run(time.Millisecond)
	if took := w.untilOwned(); took > 1300*time.Millisecond {
		t.Errorf("no owner for %s", took)
	}
}
