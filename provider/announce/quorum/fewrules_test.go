package quorum

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestFewVote_GuidesWhenItHasHeardAll: a voter that starts says nothing until it can have heard all; else the first one that it hears would
// have every address.
func TestFewVote_GuidesWhenItHasHeardAll(t *testing.T) {
	w := newFew(t, 11, 8, 3, 8)
	w.run(3 * time.Second)
	starts, early, late := w.members[1], 0, 0
	began := w.now
	w.sending = func(d *Datagram, _ []byte) {
		for _, op := range d.Operations {
			if d.From == starts.name && op.kind > opRevoke && w.now < began+grantFor*98/100 {
				early++
			} else if d.From == starts.name && op.kind > opRevoke {
				late++
			}
		}
	}
	w.restarted(starts, w.names(3))
	w.run(3 * time.Second)
	if early > 0 || late == 0 {
		t.Errorf("%d words in the first 1.1 s, %d later", early, late)
	}
}

// TestFewVote_GuideThatFewHear: a voter that no majority hears does not move an address to the one Node that it hears.
func TestFewVote_GuideThatFewHear(t *testing.T) {
	w := newFew(t, 12, 9, 3, 1)
	w.claims[0].Candidates = []string{"n7", "n8"}
	w.members[8].off = true
	w.run(3 * time.Second)
	w.restarted(w.members[8], w.names(3))
	w.cutBoth(true, []int{0}, []int{1, 2, 3, 4, 5, 6, 7})
	requested := false
	for range 300 {
		w.run(10 * time.Millisecond)
		requested = requested || len(w.members[8].quorum.requests) > 0
	}
	if w.members[0].quorum.Alive(w.clock(w.members[0]), "n7") || !w.members[0].quorum.Alive(w.clock(w.members[0]), "n8") {
		t.Fatal("n0 is to hear n8 only")
	}
	if requested {
		t.Error("n8 has requested what n7 owns")
	}
}

// TestFewVote_WithoutGuides: who hears no voter requests nothing that it has not requested before: else all would request all.
func TestFewVote_WithoutGuides(t *testing.T) {
	w := newFew(t, 13, 12, 3, 12)
	w.run(3 * time.Second)
	before := map[string]int{}
	for _, m := range w.members[3:] {
		before[m.name] = len(m.quorum.requests)
	}
	for _, m := range w.members[:3] {
		m.off = true
	}
	w.run(5 * time.Second)
	for _, m := range w.members[3:] {
		if got := len(m.quorum.requests); got > before[m.name] {
			t.Errorf("%s requests %d addresses, and had %d before the voters were off", m.name, got, before[m.name])
		}
	}
	for _, m := range w.members[:3] {
		w.restarted(m, w.names(3))
	}
	w.run(2 * time.Second)
	if took := w.untilOwned(); took > 0 {
		t.Errorf("the voters are back, and addresses had no owner for %s more", took)
	}
}

// TestQuorum_AloneWithTheNewest: one report binds no agent that starts, so a list that one member alone has ends no other list, unless all
// other Nodes of that are gone.
func TestQuorum_AloneWithTheNewest(t *testing.T) {
	w := newWorld(t, 1, 2, 1)
	a := w.members[0]
	for _, m := range w.members {
		w.vote(m, w.names(2))
	}
	w.run(2 * time.Second)
	w.members[1].off = true
	w.vote(a, w.names(1))
	w.run(5 * time.Second)
	if got := a.quorum.Lists(); len(got) != 2 {
		t.Errorf("it is bound by %v", got)
	}
	a.quorum.SetMembers(w.clock(a), w.names(1), nil, map[string]bool{"n1": true})
	w.run(2 * time.Second)
	if got := a.quorum.Lists(); len(got) != 1 {
		t.Errorf("the other Node is gone, and it is bound by %v", got)
	}
}

// TestQuorum_WakesOlderVersions: idle agents of an earlier release, which have not seen the claim yet, refuse the newest format. They
// are woken all the same.
func TestQuorum_WakesOlderVersions(t *testing.T) {
	w := newWorld(t, 2, 3, 1)
	for _, m := range w.members {
		m.blind, m.quorum.LingerFor = true, time.Second
		if m.name != "n0" {
			m.quorum.version = versionParts
		}
		w.vote(m, w.names(3))
	}
	w.run(10 * time.Second)
	w.restart(w.members[0])
	w.members[0].blind = false
	w.vote(w.members[0], w.names(3))
	w.claims[0].Candidates, w.claims[0].Preferred = w.names(1), nil
	if took := w.untilOwned(); took > 3*time.Second {
		t.Errorf("no owner for %s", took)
	}
}

// TestFewVote_GuideThatDoesNotHear: a voter that hears a Node no longer cannot tell it anything new. Its last word does not count.
func TestFewVote_GuideThatDoesNotHear(t *testing.T) {
	w := newFew(t, 14, 9, 3, 1)
	w.claims[0].Candidates = []string{"n8"}
	w.run(3 * time.Second)
	w.cut[[2]int{8, 0}] = true // and n8 hears n0
	w.run(2 * time.Second)
	w.wantMove("n7")
}

// TestFewVote_FormerVotersRest: Nodes that have lost their votes do not speak to each other, and do not wait for the next heartbeat to each other.
func TestFewVote_FormerVotersRest(t *testing.T) {
	w := newFew(t, 15, 9, 6, 4)
	w.run(3 * time.Second)
	for _, m := range w.members {
		w.vote(m, w.names(9)[6:])
	}
	w.run(4 * time.Second)
	for _, m := range w.members[:6] {
		busy := 0
		for range 100 {
			w.run(7 * time.Millisecond)
			if m.quorum.UntilHeartbeat(w.clock(m)) <= time.Millisecond {
				busy++
			}
		}
		if busy > 30 {
			t.Errorf("%s looks for heartbeats at once %d times of 100", m.name, busy)
		}
	}
}

// TestQuorum_OldWordOfAHolder: two members end different lists within the same second, each by what it heard of the other side before a cut.
// They go by words that are younger than their grants, or there would be two owners.
func TestQuorum_OldWordOfAHolder(t *testing.T) {
	w := newWorld(t, 1, 4, 1)
	w.claims[0].Candidates, w.claims[0].Preferred = w.names(2), nil
	a, b := []string{"n0", "n1", "n2"}, []string{"n0", "n1", "n3"}
	here := func(name string) bool { return name == "n0" || name == "n2" }
	for _, m := range w.members {
		m.rate = 1
		w.vote(m, a)
	}
	w.run(3 * time.Second)
	w.vote(w.members[0], b)
	w.vote(w.members[3], b)
	w.run(5 * time.Second)
	cut := false
	w.sending = func(d *Datagram, data []byte) { // links between the two sides take long
		if to := slices.Index(w.names(4), d.To); !cut && here(d.From) != here(d.To) {
			w.flying = append(w.flying, flight{w.now + 480*time.Millisecond, to, to, data})
		}
	}
	w.cutBoth(true, []int{0, 2}, []int{1, 3})
	w.run(3 * time.Second)
	for _, m := range w.members {
		m.quorum.hurry()
		m.next = w.now
	}
	w.run(time.Millisecond)
	cut = true
	w.vote(w.members[0], a)
	w.vote(w.members[1], b)
	for range 300 {
		for _, m := range w.members {
			m.look, m.next = 0, w.now
		}
		w.run(10 * time.Millisecond) // it checks that there are never two
	}
}

// TestQuorum_PreferredWhilePeersAreForgotten: that others are forgotten puts off no preferred Node's return.
func TestQuorum_PreferredWhilePeersAreForgotten(t *testing.T) {
	w := newFew(t, 16, 9, 3, 1)
	w.claims[0].Candidates = []string{"n1"}
	w.run(3 * time.Second)
	w.claims[0].Candidates, w.claims[0].Preferred, w.claims[0].ReturnAfter = w.names(9), []string{"n0"}, 5*time.Second
	for i := range 6 {
		m := w.members[0]
		m.quorum.peer(fmt.Sprint("former", i))
		m.quorum.forget(w.clock(m))
		w.run(2 * time.Second)
	}
	if got := w.ownerOf(w.claims[0].Address); got != "n0" {
		t.Errorf("%q has the address, want the preferred Node", got)
	}
}

// TestFewVote_OneVoterKnowsTheFormerCandidate: it does not keep the address on a Node that is none by what all others know.
func TestFewVote_OneVoterKnowsTheFormerCandidate(t *testing.T) {
	w := newFew(t, 17, 9, 7, 1)
	w.claims[0].Candidates = []string{"n8"}
	w.run(3 * time.Second)
	w.know = func(m *simulated, claims []Claim) []Claim {
		if m.name == "n0" {
			claims[0].Candidates = []string{"n8"}
		}
		return claims
	}
	w.wantMove("n7")
}

// TestFewVote_HalfWantAnother: one of seven voters has failed, and of the others half want one Node to have the address, half another. One
// of the two gets it, whether it has a vote or not.
func TestFewVote_HalfWantAnother(t *testing.T) {
	for _, pair := range [][2]string{{"n9", "n7"}, {"n7", "n9"}, {"n0", "n9"}, {"n9", "n4"}} {
		for _, most := range []int{3, 4} {
			w := newFew(t, 18, 10, 7, 1)
			w.members[6].off = true
			w.know = func(m *simulated, claims []Claim) []Claim {
				switch i := slices.Index(w.names(10), m.name); {
				case i < most:
					claims[0].Candidates = pair[:1]
				case i < 6:
					claims[0].Candidates = pair[1:]
				default:
					claims[0].Candidates = pair[:]
				}
				return claims
			}
			for _, m := range w.members {
				m.blind = true
			}
			w.run(3 * time.Second)
			for i, name := range pair { // each gets half of the grants
				for j := range 6 {
					if at := slices.Index(w.names(10), name); at != j && (j < 3) != (i == 0) {
						w.cut[[2]int{at, j}], w.cut[[2]int{j, at}] = true, true
					}
				}
			}
			for _, m := range w.members {
				m.blind, m.next = false, w.now
			}
			w.run(300 * time.Millisecond)
			clear(w.cut)
			if took := w.untilOwned(); took > 4500*time.Millisecond {
				t.Errorf("%d want %s and %d %s: no owner for %s", most, pair[0], 6-most, pair[1], took)
			}
		}
	}
}
