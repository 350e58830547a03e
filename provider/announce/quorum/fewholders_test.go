package quorum

import (
	"testing"
	"time"
)

// cutBoth cuts all links between members of one side and those of the other, or heals them.
func (w *world) cutBoth(cut bool, side, other []int) {
	for _, i := range side {
		for _, j := range other {
			w.cut[[2]int{i, j}], w.cut[[2]int{j, i}] = cut, cut
		}
	}
}

// TestQuorum_HolderThatWasSilent: a member that has the same newest list before and after a silence may have had another one meanwhile. It
// counts as one that has it since the silence has ended, or there would be two owners.
func TestQuorum_HolderThatWasSilent(t *testing.T) {
	w := newFew(t, 1, 5, 3, 1)
	a, b := []string{"n0", "n1", "n2"}, []string{"n0", "n2", "n3"}
	for _, m := range w.members {
		m.rate, m.quorum.forgetAfter = 1, forgetAfter
		w.vote(m, a)
	}
	all := func(list []string, members ...int) {
		for _, i := range members {
			w.vote(w.members[i], list)
		}
	}
	until := func(at time.Duration) {
		for w.now < at {
			for _, m := range w.members {
				m.look, m.next = 0, w.now
			}
			w.run(10 * time.Millisecond) // it checks that there are never two
		}
	}
	w.claims[0].Candidates = []string{"n4"}
	until(2 * time.Second)
	w.claims[0].Candidates = []string{"n2", "n4"}
	until(3 * time.Second)
	all(b, 0, 1, 2, 3, 4)
	until(3400 * time.Millisecond)
	w.cutBoth(true, []int{0}, []int{2})
	w.cutBoth(true, []int{1}, []int{3})
	until(3500 * time.Millisecond)
	all(a, 0, 1, 2, 3, 4)
	until(5 * time.Second)
	w.cutBoth(true, []int{0, 1, 4}, []int{2, 3})
	all(b, 2, 3)
	until(7 * time.Second)
	if got := w.ownerOf(w.claims[0].Address); got != "n4" {
		t.Fatalf("%q has the address: nothing is tested", got)
	}
	all(b, 0, 1)
	w.cutBoth(false, []int{0}, []int{2})
	w.cutBoth(false, []int{1}, []int{3})
	w.cut[[2]int{0, 4}], w.cut[[2]int{1, 4}] = true, true
	until(9 * time.Second)
}

// TestFewVote_MajorityOfAnOlderList: a preferred Node that cannot have a majority of an older list, and has one of the newest, leaves
// addresses to others.
func TestFewVote_MajorityOfAnOlderList(t *testing.T) {
	w := newFew(t, 1, 9, 3, 1)
	c := &w.claims[0]
	c.Candidates = []string{"n7"}
	w.run(3 * time.Second)
	w.members[2].off = true
	w.cutBoth(true, []int{8}, []int{1})
	for _, m := range w.members {
		w.vote(m, []string{"n0", "n1", "n3"})
	}
	w.run(5 * time.Second)
	c.Candidates, c.Preferred = []string{"n5", "n7", "n8"}, []string{"n8"}
	w.run(2 * time.Second)
	w.members[7].off = true
	w.run(time.Millisecond)
	if took := w.untilOwned(); took > 2*time.Second {
		t.Errorf("no owner for %s", took)
	}
}
