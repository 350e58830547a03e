package quorum

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

// newFew is a world in which the first members have votes, and the others have none.
func newFew(t *testing.T, seed uint64, members, voters, addresses int) *world {
	t.Helper()
	w := newWorld(t, seed, members, addresses)
	for i := range w.claims {
		w.claims[i].Preferred = nil
	}
	for _, m := range w.members {
		m.quorum.LingerFor, m.quorum.underway = time.Minute, maxUnderway
		w.vote(m, w.names(voters))
	}
	return w
}

func (w *world) vote(m *simulated, voters []string) {
	m.quorum.SetMembers(w.clock(m), voters, nil, nil)
}

// restarted is a member that starts again.
func (w *world) restarted(m *simulated, voters []string) {
	w.restart(m)
	m.quorum.LingerFor, m.quorum.underway = time.Minute, maxUnderway
	w.vote(m, voters)
}

// loads is how many addresses each member owns.
func (w *world) loads() map[string]int {
	loads := map[string]int{}
	for _, c := range w.claims {
		loads[w.ownerOf(c.Address)]++
	}
	return loads
}

// TestFewVote: Nodes without a vote own addresses as any other, and each has its share. Heartbeats are between those with a vote, and between
// them and the others.
func TestFewVote(t *testing.T) {
	sent := map[int]int{}
	for _, voters := range []int{5, 25} {
		w := newFew(t, 1, 25, voters, 25)
		w.run(2 * time.Second)
		loads := w.loads()
		if most := slices.Max(slices.Collect(maps.Values(loads))); len(loads) < 12 || most > 2 || loads[""] > 0 {
			t.Errorf("%d with a vote: %v", voters, loads)
		}
		sent[voters] = w.sentIn(2*time.Second) / 2
	}
	t.Logf("25 Nodes, datagrams a second: %d with 5 votes, %d with 25", sent[5], sent[25])
	if 5*sent[5] > 2*sent[25] {
		t.Errorf("5 votes need %d datagrams, 25 %d", sent[5], sent[25])
	}
}

// TestFewVote_OwnerFails: whoever it is, with a vote or without, another owns its address in the time that it always took.
func TestFewVote_OwnerFails(t *testing.T) {
	for seed := range uint64(20) {
		w := newFew(t, seed, 12, 5, 1)
		w.run(3 * time.Second)
		for range 4 { // of 12
			owner := w.owner(t)
			owner.off = true
			w.run(time.Millisecond)
			if took := w.untilOwned(); took > 1250*time.Millisecond {
				t.Errorf("seed %d: %s failed, and nobody had the address for %s", seed, owner.name, took)
			}
			w.run(time.Second)
			w.restarted(owner, w.names(5))
			w.run(3 * time.Second)
		}
	}
}

// TestFewVote_VotersFail: two of five voters fail, and start again one after the other: an owner without a vote keeps the address all the time.
func TestFewVote_VotersFail(t *testing.T) {
	w := newFew(t, 3, 9, 5, 1)
	w.claims[0].Candidates = w.names(9)[5:]
	w.run(3 * time.Second)
	owner := w.owner(t)
	keeps := func(what string) {
		t.Helper()
		w.run(3 * time.Second)
		if got := w.ownerOf(w.claims[0].Address); got != owner.name {
			t.Errorf("%s: %q has the address, want %s", what, got, owner.name)
		}
	}
	w.members[0].off, w.members[1].off = true, true
	keeps("two failed")
	for i, m := range w.members[:5] {
		w.restarted(m, w.names(5))
		keeps(fmt.Sprintf("%d started", i+1))
	}
	for _, m := range w.members[:5] {
		w.restarted(m, w.names(5))
	}
	w.run(2500 * time.Millisecond) // nothing is granted for 1.1 s
	if w.untilOwned() > 0 {
		t.Error("all voters have started at once, and nobody has the address")
	}
}

// TestFewVote_Drain: what a Node without a vote has goes to another while it drains, with a gap of a few datagrams; and it is told when no
// other is there.
func TestFewVote_Drain(t *testing.T) {
	w := newFew(t, 4, 9, 3, 1)
	w.claims[0].Candidates = w.names(9)[3:]
	w.run(3 * time.Second)
	for range 5 {
		owner := w.owner(t)
		owner.quorum.SetDraining(true)
		owner.next = w.now
		gap := 0
		for range 500 {
			w.run(time.Millisecond)
			if w.owned[w.claims[0].Address] == 0 {
				gap++
			}
		}
		if after := w.owner(t); after == owner || gap > 10 {
			t.Errorf("%s drains: %s has the address, and nobody had it for %d ms", owner.name, after.name, gap)
		}
	}
	last := w.owner(t)
	if last.quorum.Alone(w.clock(last), w.claims[0]) {
		t.Errorf("%s takes itself for the only one", last.name)
	}
	last.quorum.SetDraining(true)
	w.run(time.Second)
	if last = w.owner(t); !last.quorum.Alone(w.clock(last), w.claims[0]) {
		t.Errorf("%s is the last that has the address, and is not told so", last.name)
	}
}

// TestFewVote_Preferred: a preferred Node without a vote takes the address from another without a vote when it was heard for long enough.
func TestFewVote_Preferred(t *testing.T) {
	w := newFew(t, 5, 9, 3, 1)
	address, preferred := w.claims[0].Address, w.members[8]
	w.claims[0].Candidates = w.names(9)[3:]
	w.claims[0].Preferred, w.claims[0].ReturnAfter = []string{preferred.name}, 3*time.Second
	w.run(3 * time.Second)
	if got := w.ownerOf(address); got != preferred.name {
		t.Fatalf("%q has the address", got)
	}
	preferred.off = true
	w.run(2 * time.Second)
	if got := w.ownerOf(address); got == "" {
		t.Fatal("the preferred Node has failed, and nobody has the address")
	}
	w.restarted(preferred, w.names(3))
	back, gap := w.now, 0
	for w.ownerOf(address) != preferred.name && w.now < back+10*time.Second {
		w.run(time.Millisecond)
		if w.owned[address] == 0 {
			gap++
		}
	}
	if took := w.now - back; took < 2900*time.Millisecond || took > 5*time.Second || gap > 10 {
		t.Errorf("it is back after %s, and nobody had the address for %d ms", took, gap)
	}
}

// TestFewVote_Early: who does not carry packets yet takes the address from nobody, and takes it where nobody has it.
func TestFewVote_Early(t *testing.T) {
	w := newFew(t, 6, 7, 3, 1)
	w.claims[0].Candidates = []string{"n4"}
	w.run(3 * time.Second)
	owner := w.owner(t)
	w.claims[0].Candidates = []string{"n4", "n5"}
	w.claims[0].Preferred, w.claims[0].Early = []string{"n5"}, true
	w.run(3 * time.Second)
	if got := w.owner(t); got != owner {
		t.Errorf("%s has the address before it carries packets", got.name)
	}
	owner.off = true
	w.run(1300 * time.Millisecond)
	if w.untilOwned() > 0 {
		t.Error("nobody has the address")
	}
	w.restarted(owner, w.names(3))
	w.claims[0].Preferred, w.claims[0].Early = []string{"n4"}, false
	w.run(5 * time.Second)
	if got := w.owner(t); got != owner {
		t.Errorf("%s has the address, want the preferred %s", got.name, owner.name)
	}
}

// TestFewVote_Wakes: after a time without an address, the first ones do not all go to those with a vote.
func TestFewVote_Wakes(t *testing.T) {
	w := newFew(t, 7, 12, 3, 12)
	for _, m := range w.members {
		m.blind, m.quorum.LingerFor = true, 2*time.Second
	}
	w.run(2 * time.Minute)
	if idle := w.sentIn(time.Minute); idle > 0 {
		t.Errorf("%d datagrams in a minute without an address", idle)
	}
	if unheard := w.members[11].quorum.Unheard(w.clock(w.members[11])); len(unheard) > 0 {
		t.Errorf("no heartbeats are sent, and those of %v are missing", unheard)
	}
	w.blind(false, w.members...)
	start := w.now
	took := w.untilOwned()
	if loads := w.loads(); took > 300*time.Millisecond || loads["n0"]+loads["n1"]+loads["n2"] > 6 {
		t.Errorf("after %s: %v", took+w.now-start, loads)
	}
}

// TestFewVote_VotesMove: a Node gets a vote and another loses its own; addresses stay where they are.
func TestFewVote_VotesMove(t *testing.T) {
	w := newFew(t, 8, 10, 3, 20)
	w.run(4 * time.Second)
	before := map[string]string{}
	for _, c := range w.claims {
		before[c.Address.String()] = w.ownerOf(c.Address)
	}
	for i := range 6 {
		for _, m := range w.members {
			w.vote(m, w.names(4 + i)[i+1:])
			w.run(20 * time.Millisecond)
		}
		for range 300 {
			w.run(10 * time.Millisecond)
			for _, c := range w.claims {
				if got := w.ownerOf(c.Address); got != before[c.Address.String()] {
					t.Fatalf("votes of %v: %q has %s, and %s had it", w.names(4 + i)[i+1:], got, c.Address, before[c.Address.String()])
				}
			}
		}
	}
	for _, m := range w.members {
		if lists := m.quorum.Lists(); len(lists) != 1 {
			t.Errorf("%s is bound by %v", m.name, lists)
		}
	}
	w.run(2 * time.Minute)
	for _, m := range w.members[:6] { // those without a vote do not know each other any longer
		if n := len(m.quorum.peers); n != 3 {
			t.Errorf("%s knows %d others, want 3", m.name, n)
		}
	}
}

// TestFewVote_FormerGuide: a member that has lost its vote says nothing more, and its last word counts no longer for one that has not learned
// of the new list.
func TestFewVote_FormerGuide(t *testing.T) {
	w := newFew(t, 3, 9, 3, 1)
	w.claims[0].Candidates = []string{"n8"}
	w.run(3 * time.Second)
	for _, m := range w.members[:8] {
		w.vote(m, []string{"n1", "n2", "n3"})
	}
	w.run(5 * time.Second)
	w.wantMove("n7")
}

// wantMove makes a member the only candidate for the first address, which it is to own soon.
func (w *world) wantMove(to string) {
	w.t.Helper()
	w.claims[0].Candidates = []string{to}
	w.run(2 * time.Second)
	if got := w.ownerOf(w.claims[0].Address); got != to {
		w.t.Errorf("%q has the address, want the only candidate", got)
	}
}

// TestFewVote_VersionAfterLoss: heartbeats in the oldest format, of which some are sent to who does not answer, leave no two members with it.
func TestFewVote_VersionAfterLoss(t *testing.T) {
	for seed := range uint64(10) {
		w := newFew(t, seed, 8, 3, 1)
		w.loss = 0.7
		w.run(3 * time.Second)
		for _, m := range w.members {
			w.restarted(m, w.names(3))
			w.run(2 * time.Second)
		}
		w.loss = 0
		w.run(showAgain + 2*time.Second)
		for _, m := range w.members {
			for _, p := range m.quorum.peers {
				if p.version < versionNow && m.quorum.Alive(w.clock(m), p.name) {
					t.Errorf("seed %d: %s takes %s for one that knows version %d", seed, m.name, p.name, p.version)
				}
			}
		}
	}
}

// TestFewVote_VotersDisagree: voters know other candidates each. One Node has the address, and the others do not ask for it again and again.
func TestFewVote_VotersDisagree(t *testing.T) {
	w := newFew(t, 9, 12, 7, 1)
	w.know = func(m *simulated, claims []Claim) []Claim {
		for i := range claims {
			claims[i].Candidates = [][]string{{"n9"}, {"n9"}, {"n9"}, {"n10"}, {"n10"}, {"n11"}, {"n11"}}[min(6, slices.Index(w.names(12), m.name))]
			if m.name > "n6" || len(m.name) > 2 {
				claims[i].Candidates = []string{m.name}
			}
		}
		return claims
	}
	w.run(4 * time.Second)
	if w.untilOwned() > 0 {
		t.Error("nobody has the address")
	}
	operations, owner := 0, w.ownerOf(w.claims[0].Address)
	w.sending = func(d *Datagram, _ []byte) { operations += len(d.Operations) }
	w.run(10 * time.Second)
	if got := w.ownerOf(w.claims[0].Address); got != owner || operations > 400 {
		t.Errorf("%s had the address, %s has it; %d operations in 10 s", owner, got, operations)
	}
}

// TestFewVote_Rollout: agents of an earlier release, each of which has a vote, are replaced one after the other by agents that know of five
// votes; and back. An address has no owner for as long as a failed owner takes, and no longer.
func TestFewVote_Rollout(t *testing.T) {
	w, r := newWorld(t, 10, 11, 6), newReports()
	start := func(m *simulated, version byte, voters []string) {
		w.restart(m)
		m.quorum.LingerFor, m.quorum.underway, m.quorum.version = time.Minute, maxUnderway, version
		r.learn(w, &truth{names: voters}, m, false)
	}
	for i := range w.claims {
		w.claims[i].Preferred = nil
	}
	for _, m := range w.members {
		start(m, versionParts, w.names(11))
	}
	w.run(3 * time.Second)
	for _, to := range []struct {
		version byte
		voters  []string
	}{{versionNow, w.names(5)}, {versionParts, w.names(11)}} {
		for _, m := range w.members {
			m.off = true
			w.run(300 * time.Millisecond)
			start(m, to.version, to.voters)
			missing := map[string]time.Duration{}
			for range 150 {
				w.run(20 * time.Millisecond)
				r.renew(w)
				for _, c := range w.claims {
					if w.owned[c.Address] == 0 {
						missing[c.Address.String()] += 20 * time.Millisecond
					}
				}
			}
			for address, took := range missing {
				if took > 1200*time.Millisecond {
					t.Errorf("%s starts with version %d: %s had no owner for %s", m.name, to.version, address, took)
				}
			}
		}
		for _, m := range w.members {
			if lists := m.quorum.Lists(); len(lists) != 1 || !slices.Equal(lists[0], to.voters) {
				t.Errorf("all have version %d, and %s is bound by %v", to.version, m.name, lists)
			}
		}
	}
}
