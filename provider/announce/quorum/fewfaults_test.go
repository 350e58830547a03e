package quorum

import (
	"slices"
	"testing"
	"time"
)

// Random faults where few of the Nodes have a vote, and now and then others than before: nobody ever shares an address, and soon after the
// end of the faults each address has an owner. Agents report their lists where their vote counts, and start with what was reported.
func TestFewVote_NeverTwoOwners(t *testing.T) {
	slowest := time.Duration(0)
	eachHistory(t, 6, func(seed uint64) *world {
		w, r := newWorld(t, seed, 9, 1+int(seed%3)), newReports()
		w.rollout = seed%4 == 0
		for _, m := range w.members {
			w.restart(m)
		}
		voters := 2 + int(seed%4)
		tr := &truth{names: w.names(voters), gone: map[string]bool{}}
		r.allLearn(w, tr)
		w.run(1500 * time.Millisecond)
		r.disturb(w, tr, 12, w.moveVote)
		w.rollout = false
		for _, m := range w.members {
			if m.quorum.version != versionNow {
				w.restart(m)
			}
		}
		tr.names, tr.silent = w.names(voters), nil
		w.allAreBack(r, tr)
		slowest = max(slowest, w.wantOwners(seed))
		return w
	})
	t.Logf("slowest return to an owner for each address: %s", slowest)
}

// moveVote gives a vote to another Node, to one more, or takes one away.
func (w *world) moveVote(tr *truth) {
	change := w.random.IntN(3)
	if at := w.random.IntN(len(tr.names)); change > 0 && len(tr.names) > 1 {
		tr.names = slices.Delete(slices.Clone(tr.names), at, at+1)
	}
	if name := w.members[w.random.IntN(len(w.members))].name; change < 2 && !slices.Contains(tr.names, name) {
		tr.names = append(slices.Clone(tr.names), name)
	}
	slices.Sort(tr.names)
	w.say("votes: %v", tr.names)
}

// The cluster's lists have nothing in common with each other, come faster than they can be taken over, and no agent learns of all.
func TestQuorum_SkipsLists(t *testing.T) {
	eachHistory(t, 6, func(seed uint64) *world {
		w, r := newWorld(t, seed, 8, 1), newReports()
		tr := &truth{gone: map[string]bool{}}
		draw := func() {
			tr.names = nil
			for _, i := range w.random.Perm(8)[:1+w.random.IntN(4)] {
				tr.names = append(tr.names, w.members[i].name)
			}
			slices.Sort(tr.names)
			w.say("votes: %v", tr.names)
		}
		draw()
		r.allLearn(w, tr)
		w.run(2 * time.Second)
		for range 20 {
			if w.random.IntN(2) == 0 {
				draw()
			}
			if w.random.IntN(3) == 0 {
				w.fault()
			}
			for _, m := range w.members {
				if len(m.quorum.Lists()) == 0 || w.random.IntN(3) == 0 {
					r.learn(w, tr, m, w.random.IntN(20) == 0)
				}
			}
			w.run(time.Duration(w.random.Int64N(int64(1200 * time.Millisecond))))
		}
		w.allAreBack(r, tr)
		w.wantOwners(seed)
		return w
	})
}
