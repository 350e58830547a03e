package quorum

import (
	"slices"
	"testing"
	"time"
)

// TestUnrequested_ShareOfWhoTwoHear: two members do not hear each other, and both hear a third, to which the score of an address is in favour.
// By what it hears it has its share, and elects another one; by what those hear it has not, and they elect it. It takes the address.
func TestUnrequested_ShareOfWhoTwoHear(t *testing.T) {
	w := newFew(t, 1, 3, 3, 6)
	left := &w.claims[0]
	middle := slices.IndexFunc(w.members, func(m *simulated) bool { return m.name == left.candidates(w.names(3)).ranked()[0] })
	sides := slices.DeleteFunc([]int{0, 1, 2}, func(i int) bool { return i == middle })
	for i := range w.claims {
		w.claims[i].Candidates = []string{w.members[[]int{middle, middle, middle, sides[0], sides[1]}[i%5]].name}
	}
	left.Candidates = []string{"another"}
	w.run(3 * time.Second)
	w.cutBoth(true, sides[:1], sides[1:])
	w.run(time.Second) // both have noticed
	for i := range w.claims {
		w.claims[i].Candidates = w.names(3)
	}
	w.run(time.Second)
	for _, m := range w.members {
		if m.quorum.requests[left.Address] != nil {
			t.Fatal("it was requested at once: nothing is tested")
		}
	}
	w.wantOwnerWithin(t, left, 3500*time.Millisecond, w.members[middle].name)
}

func (c Claim) candidates(names []string) candidates {
	return candidates{address: c.Address, names: names}
}

// wantOwnerWithin fails where the address has no owner in time, or another one.
func (w *world) wantOwnerWithin(t *testing.T, c *Claim, within time.Duration, want string) {
	t.Helper()
	began := w.now
	for w.ownerOf(c.Address) == "" && w.now < began+20*time.Second {
		w.run(10 * time.Millisecond)
	}
	got := w.ownerOf(c.Address)
	if took := w.now - began; took > within || want != "" && got != want {
		t.Errorf("%q has the address after %s, want %q in %s", got, took, want, within)
	}
}

// TestUnrequested_NodeThatDoesNotKnow: the agent of the Node with the highest score hears all others and no API server, so that it does not
// know of a new Service. Another Node takes the address, with or without a vote; the same goes for all but one of the Nodes.
func TestUnrequested_NodeThatDoesNotKnow(t *testing.T) {
	for _, voters := range []int{3, 6} {
		for blind := 1; blind < 6; blind++ {
			w := newFew(t, uint64(blind), 6, voters, 1)
			c := &w.claims[0]
			ranked := c.candidates(w.names(6)).ranked()
			for _, m := range w.members {
				m.blind = slices.Contains(ranked[:blind], m.name)
			}
			w.run(500 * time.Millisecond) // nothing is granted for 1.1 s
			w.wantOwnerWithin(t, c, time.Second+time.Duration(blind+1)*unrequestedFor, ranked[blind])
			w.blind(false, w.members...)
			w.run(10 * time.Second)
			if got := w.ownerOf(c.Address); got != ranked[blind] {
				t.Errorf("%q has the address when all know of it, want %q", got, ranked[blind])
			}
		}
	}
}
