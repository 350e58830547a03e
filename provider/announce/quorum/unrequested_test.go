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
	w.wantOwnerWithin(t, left, 1500*time.Millisecond, w.members[middle].name)
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
			w.wantOwnerWithin(t, c, 1200*time.Millisecond+time.Duration(blind+1)*unrequestedFor, ranked[blind])
			w.blind(false, w.members...)
			w.run(10 * time.Second)
			if got := w.ownerOf(c.Address); got != ranked[blind] {
				t.Errorf("%q has the address when all know of it, want %q", got, ranked[blind])
			}
		}
	}
}

// TestUnrequested_OwnerThatCannotKeep: the owner's last pod is gone, and the Node that is elected in its place does not know of the new
// ones. Another one takes the address over.
func TestUnrequested_OwnerThatCannotKeep(t *testing.T) {
	for _, voters := range []int{3, 6} {
		w := newFew(t, 1, 6, voters, 1)
		c := &w.claims[0]
		c.Candidates = []string{"n5"}
		w.run(3 * time.Second)
		ranked := c.candidates([]string{"n3", "n4"}).ranked()
		w.know = func(m *simulated, claims []Claim) []Claim {
			if m.name == ranked[0] {
				claims[0].Candidates = []string{"n5"}
			}
			return claims
		}
		c.Candidates = ranked
		w.run(3 * time.Second)
		if got := w.ownerOf(c.Address); got != ranked[1] {
			t.Errorf("%d votes: %q has the address, want %q", voters, got, ranked[1])
		}
	}
}

// TestUnrequested_SharesAfterAnOutage: no Node that may have them knows of new Services for half a minute. The first one that learns of them does
// not get them all.
func TestUnrequested_SharesAfterAnOutage(t *testing.T) {
	w := newFew(t, 1, 24, 3, 48)
	know := 3
	for i := range w.claims {
		w.claims[i].Candidates = w.names(24)[3:]
	}
	w.know = func(m *simulated, claims []Claim) []Claim {
		if slices.Contains(w.names(24)[know:], m.name) {
			return claims[:1]
		}
		return claims
	}
	w.run(30 * time.Second)
	know = 4
	w.run(time.Second)
	know = 24
	w.run(10 * time.Second)
	loads := w.loads()
	t.Log(loads)
	if loads["n3"] > 20 || loads[""] > 0 {
		t.Errorf("%d of 48 addresses are on the first Node, and %d have no owner", loads["n3"], loads[""])
	}
}

// TestQuorum_UnheardVoterLetsGo: a voter that most do not hear keeps no votes of those that hear it.
func TestQuorum_UnheardVoterLetsGo(t *testing.T) {
	w := newFew(t, 1, 5, 5, 1)
	c := &w.claims[0]
	c.Candidates = []string{"n0"}
	w.run(3 * time.Second)
	c.Candidates = []string{"n0", "n2"}
	w.members[4].off = true
	w.run(2 * time.Second)
	w.cutBoth(true, []int{0}, []int{2, 3})
	w.run(time.Second) // n0 has lost it
	w.wantOwnerWithin(t, c, 3*time.Second, "n2")
}

// TestQuorum_SplitBetweenTwoThatDoNotHearEachOther: each has two votes of five, and one member is off. One of them makes room.
func TestQuorum_SplitBetweenTwoThatDoNotHearEachOther(t *testing.T) {
	w := newFew(t, 1, 5, 5, 1)
	c := &w.claims[0]
	c.Candidates = []string{"another"}
	w.run(3 * time.Second)
	w.members[4].off = true
	w.cutBoth(true, []int{0}, []int{1})
	w.run(2 * time.Second)
	w.cutBoth(true, []int{0}, []int{3})
	w.cutBoth(true, []int{1}, []int{2})
	c.Candidates = []string{"n0", "n1"}
	w.run(300 * time.Millisecond)
	w.cutBoth(false, []int{0}, []int{3})
	w.cutBoth(false, []int{1}, []int{2})
	w.wantOwnerWithin(t, c, 10*time.Second, "")
}

// TestQuorum_MinorityForLong: three of seven voters are cut off for a minute. They do not request and drop addresses all the time, which would
// all be kept for members that do not answer.
func TestQuorum_MinorityForLong(t *testing.T) {
	w := newFew(t, 1, 7, 7, 20)
	w.run(3 * time.Second)
	w.cutBoth(true, []int{0, 1, 2}, []int{3, 4, 5, 6})
	w.run(time.Minute)
	for _, m := range w.members[:3] {
		for _, p := range m.quorum.peers {
			if n := len(p.out); n > 200 {
				t.Errorf("%s keeps %d operations for %s", m.name, n, p.name)
			}
		}
	}
	w.cutBoth(false, []int{0, 1, 2}, []int{3, 4, 5, 6})
	w.run(2 * time.Second)
	if took := w.untilOwned(); took > 0 {
		t.Errorf("all hear each other again, and addresses had no owner for %s more", took)
	}
}
