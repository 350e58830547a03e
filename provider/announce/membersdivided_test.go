package announce

import (
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
