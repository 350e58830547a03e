package announce

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

// allLearn lets all that live learn who has a vote, one after the other.
func (w *world) allLearn(tr *truth) {
	for _, i := range w.random.Perm(len(w.members)) {
		w.learn(tr, w.members[i])
		w.run(time.Duration(w.random.Int64N(int64(100 * time.Millisecond))))
	}
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

// An agent is dead for good, and its kubelet lives. It has no vote once it was unheard for minutes, so that all other
// Nodes may be replaced, one after the other.
func TestQuorum_DeadAgentKeepsNobodyBack(t *testing.T) {
	w := newWorld(t, 3, 8, 2)
	name := func(i int) string { return fmt.Sprintf("n%d", i) }
	learn := func(gone map[string]bool, dead bool, who ...int) {
		var members []string
		for _, i := range who {
			members = append(members, name(i))
		}
		all := append(slices.Clone(members), name(7))
		if !dead {
			members = all
		}
		for _, i := range who {
			m := w.members[i]
			m.quorum.SetMembers(w.clock(m), members, all, gone)
		}
	}
	for _, m := range w.members[3:] {
		m.off = true
	}
	learn(nil, false, 0, 1, 2)
	w.run(3 * time.Second)
	learn(nil, true, 0, 1, 2)
	w.run(3 * time.Second)
	gone := map[string]bool{}
	for first := 1; first <= 4; first++ {
		w.restart(w.members[first+2])
		learn(maps.Clone(gone), true, first-1, first, first+1, first+2)
		w.run(3 * time.Second)
		w.members[first-1].off, gone[name(first-1)] = true, true
		learn(maps.Clone(gone), true, first, first+1, first+2)
		w.run(3 * time.Second)
		if w.untilOwned() > 0 {
			t.Fatalf("without n%d nobody has the addresses", first-1)
		}
		for i := first; i < first+3; i++ {
			if n := len(w.members[i].quorum.memberships.list); n != 1 {
				t.Errorf("without n%d: n%d is bound by %d lists", first-1, i, n)
			}
		}
	}
}
