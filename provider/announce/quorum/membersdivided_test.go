package quorum

import (
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

// The first of three is cut off from the other two, one of which owns the address. Two Nodes join beside it, one after
// the other: they know only lists that have them, and a majority of these. When the first is silent, its grants and its
// lists are gone with it; the list that bound it still has its owner on the other side.
func TestQuorum_JoinBesideACut(t *testing.T) {
	for _, end := range []string{"off", "frozen", "deaf", "starts again"} {
		t.Run(end, func(t *testing.T) {
			w := newWorld(t, 1, 5, 1)
			first, others := w.members[0], w.members[1:3]
			w.members[0].quorum.SetDraining(true)
			w.members[2].quorum.SetDraining(true)
			for _, m := range w.members[:3] {
				m.quorum.SetMembers(w.clock(m), w.names(3), nil, nil)
			}
			w.run(2 * time.Second)
			if !others[0].quorum.Owns(w.clock(others[0]), w.claims[0].Address) {
				t.Fatal("n1 does not own the address: nothing is tested")
			}
			first.quorum.SetDraining(false)
			others[1].quorum.SetDraining(false)
			for _, i := range []int{0, 3, 4} {
				for _, j := range []int{1, 2} {
					w.cut[[2]int{i, j}], w.cut[[2]int{j, i}] = true, true
				}
			}
			w.run(2 * time.Minute)
			for _, tr := range []*truth{
				{names: []string{"n0", "n3"}, silent: []string{"n1", "n2"}},
				{names: []string{"n0", "n3", "n4"}, silent: []string{"n1", "n2"}},
			} {
				for _, i := range []int{0, 3, 4} {
					if slices.Contains(tr.names, w.members[i].name) {
						w.learn(tr, w.members[i])
					}
				}
				w.run(2 * time.Minute)
			}
			switch end {
			case "off":
				first.off = true
			case "frozen":
				first.frozen = w.now + 2*time.Second
			case "deaf":
				for _, i := range []int{3, 4} {
					w.cut[[2]int{i, 0}], w.cut[[2]int{0, i}] = true, true
				}
			case "starts again":
				w.restart(first)
				w.learn(&truth{names: []string{"n0", "n3", "n4"}, silent: []string{"n1", "n2"}}, first)
			}
			w.run(time.Minute)
			if w.untilOwned() > 0 {
				t.Error("n1 and n2 are a majority of the list that they know, and nobody owns the address")
			}
		})
	}
}

// Sides of a cut go on for long, each with what it learns of the cluster: Nodes join beside those that voted before, and
// members fall silent for a while.
func TestQuorum_JoinsDuringCuts(t *testing.T) {
	eachHistory(t, 3, func(seed uint64) *world {
		w, r := newWorld(t, seed, 7, 2), newReports()
		voters := 2 + int(seed%4)
		for _, m := range w.members[:voters] {
			r.learn(w, &truth{names: w.names(voters)}, m, false)
		}
		w.run(2 * time.Second)
		here, there := w.divide(voters)
		for _, name := range there {
			r.away[name] = true
		}
		tr := &truth{names: here, silent: there}
		w.run(2 * time.Second)
		for _, joins := range w.members[voters:] {
			if w.random.IntN(4) > 0 {
				tr = &truth{names: slices.Sorted(slices.Values(append(slices.Clone(tr.names), joins.name))), silent: there}
			}
			for _, m := range w.members {
				if slices.Contains(tr.names, m.name) && w.random.IntN(5) > 0 {
					r.learn(w, tr, m, false)
				}
			}
			w.run(time.Duration(w.random.Int64N(int64(5 * time.Second))))
			w.silence(w.members[w.random.IntN(len(w.members))])
			w.run(time.Duration(w.random.Int64N(int64(3 * time.Second))))
		}
		return w
	})
}

// divide cuts some of the voters off from the others, and leaves those that do not vote yet beside the former.
func (w *world) divide(voters int) (here, there []string) {
	side := map[int]bool{}
	for _, i := range w.random.Perm(voters)[:w.random.IntN(voters)] {
		side[i] = true
	}
	for i, m := range w.members[:voters] {
		if side[i] {
			there = append(there, m.name)
		} else {
			here = append(here, m.name)
		}
	}
	for i := range w.members {
		for j := range w.members {
			w.cut[[2]int{i, j}] = side[i] != side[j]
		}
	}
	return here, there
}

// silence keeps a member from the others for a while, or for ever.
func (w *world) silence(m *simulated) {
	switch w.random.IntN(4) {
	case 0:
		m.off = true
	case 1:
		m.frozen = w.now + time.Duration(w.random.Int64N(int64(4*time.Second)))
	case 2:
		i := w.random.IntN(len(w.members))
		for j := range w.members {
			w.cut[[2]int{i, j}], w.cut[[2]int{j, i}] = i != j, i != j
		}
	}
}
