package announce

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// replacement is how the machines of a cluster are replaced, one after the other.
type replacement struct {
	name   string
	nodes  int
	before bool          // the new machine joins before the old one goes
	missed time.Duration // at most, until the Node of the old one is deleted
}

// Machines are replaced while the agent of one Node is dead and the Node is Ready. Addresses have owners all the time,
// but for the second in which a machine that had one is missed. Two that are left of four own nothing until the cluster
// says that the third is gone.
func TestQuorum_NodesAreReplacedWhileAnAgentIsDead(t *testing.T) {
	for _, r := range []replacement{
		{name: "five, the old one goes first", nodes: 5, missed: 3 * time.Second},
		{name: "five, the new one comes first", nodes: 5, before: true, missed: 3 * time.Second},
		{name: "four, the old one goes first", nodes: 4},
		{name: "three, the new one comes first", nodes: 3, before: true},
	} {
		for dead := range r.nodes {
			t.Run(fmt.Sprintf("%s, n%d", r.name, dead), func(t *testing.T) {
				slowest := time.Duration(0)
				for seed := range uint64(2) {
					slowest = max(slowest, r.run(newWorld(t, seed, 2*r.nodes, 3), dead))
				}
				t.Logf("at most %s without an owner", slowest)
			})
		}
	}
}

// run returns the longest time without an owner.
func (r replacement) run(w *world, dead int) time.Duration {
	tr := &truth{names: w.names(r.nodes), gone: map[string]bool{}}
	for _, m := range w.members[r.nodes:] {
		m.off = true
	}
	w.allLearn(tr)
	w.members[dead].off = true
	w.run(5 * time.Second)
	join := func(m *simulated) {
		w.restart(m)
		tr.names = append(slices.Clone(tr.names), m.name)
		slices.Sort(tr.names)
		w.say("%s joins", m.name)
		w.allLearn(tr)
	}
	longest := time.Duration(0)
	for i, old := range w.members[:r.nodes] {
		if i == dead {
			continue
		}
		took := w.ownerless(func() {
			if r.before {
				join(w.members[r.nodes+i])
				w.run(3 * time.Second) // it grants nothing at first
			}
			w.say("%s dies", old.name)
			old.off = true
			w.run(time.Duration(w.random.Int64N(int64(r.missed + 1))))
			tr.names = slices.DeleteFunc(slices.Clone(tr.names), func(name string) bool { return name == old.name })
			tr.gone[old.name] = true
			w.allLearn(tr)
			if !r.before {
				join(w.members[r.nodes+i])
			}
			w.run(4 * time.Second)
		})
		if longest = max(longest, took); took > 2500*time.Millisecond {
			w.fail("an address had no owner for %s", took)
		}
	}
	return longest
}

// allLearn lets all that live learn who has a vote, one after the other.
func (w *world) allLearn(tr *truth) {
	for _, i := range w.random.Perm(len(w.members)) {
		w.learn(tr, w.members[i])
		w.run(time.Duration(w.random.Int64N(int64(100 * time.Millisecond))))
	}
}

// ownerless is the longest time for which one of the addresses has no owner meanwhile.
func (w *world) ownerless(meanwhile func()) time.Duration {
	longest, owned := time.Duration(0), map[netip.Addr]time.Duration{}
	for _, c := range w.claims {
		owned[c.Address] = w.now
	}
	w.checked = func() {
		for _, c := range w.claims {
			if w.owned[c.Address] > 0 {
				owned[c.Address] = w.now
			}
			longest = max(longest, w.now-owned[c.Address])
		}
	}
	meanwhile()
	w.checked = nil
	return longest
}

// divided is a world of n0 and n1, which vote, and of n2 and n3, of which each hears one of them. All know the list of
// n0 alone, or of both; then n1 and n3 learn that n0 is silent.
func divided(t *testing.T, voters int) (w *world, tr *truth) {
	w = newWorld(t, 1, 4, 1)
	w.claims[0].Candidates = []string{"n2", "n3"}
	w.allLearn(&truth{names: w.names(voters)})
	w.run(2 * time.Second)
	for i := range 4 {
		j := 3 - i // n0 and n2 hear each other, and n1 and n3
		w.cut[[2]int{i, j}], w.cut[[2]int{i, i ^ 1}] = true, true
	}
	w.run(2 * time.Second)
	if w.untilOwned() > 0 {
		t.Fatal("n2 does not own the address: nothing is tested")
	}
	tr = &truth{names: []string{"n1"}, silent: []string{"n0"}}
	w.learn(tr, w.members[1])
	w.learn(tr, w.members[3])
	w.run(3 * time.Second)
	return w, tr
}

// What a Node has granted counts for 0.7 s after it has died, as who owns it cannot know. Its vote is gone later.
func TestQuorum_WhatIsGoneWasGranted(t *testing.T) {
	w, tr := divided(t, 1)
	w.members[0].off, tr.silent, tr.gone = true, nil, map[string]bool{"n0": true}
	w.learn(tr, w.members[1])
	w.learn(tr, w.members[3])
	w.run(3 * time.Second)
	if w.untilOwned() > 0 {
		t.Error("the one that voted first is gone, and nobody owns the address")
	}
}

// Who starts again while the first one is silent does not become the first one in its place.
func TestQuorum_StartsWhileTheFirstIsSilent(t *testing.T) {
	w, tr := divided(t, 2)
	for _, i := range []int{1, 3} {
		w.restart(w.members[i])
		w.learn(tr, w.members[i])
	}
	w.run(3 * time.Second)
	if w.untilOwned() > 0 {
		t.Error("the one that hears the first has lost the address")
	}
}
