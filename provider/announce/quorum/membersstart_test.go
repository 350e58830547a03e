package quorum

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// reports is what the API server has of each agent's lists of voters.
type reports struct {
	lists map[string][]v1alpha1.VoterList
	// away are those that do not reach the API server: they neither learn nor report.
	away map[string]bool
}

func newReports() *reports {
	return &reports{lists: map[string][]v1alpha1.VoterList{}, away: map[string]bool{}}
}

// renew writes what binds the members now, as agents do now and then.
func (r *reports) renew(w *world) {
	for _, m := range w.members {
		if lists := m.quorum.Lists(); !m.off && !r.away[m.name] && len(lists) > 0 {
			r.lists[m.name] = Report(m.name, lists)
		}
	}
}

// learn is what an agent does with a list of voters: it starts with what the API server has, and acts on what is new once
// that is written. With lost, it ends in between.
func (r *reports) learn(w *world, tr *truth, m *simulated, lost bool) {
	if m.off || r.away[m.name] || m.frozen > w.now {
		return
	}
	all := slices.Concat(tr.names, tr.silent)
	slices.Sort(all)
	if len(m.quorum.Lists()) == 0 {
		m.quorum.Begin(w.clock(m), Bound(m.name, r.lists, func(name string) bool { return tr.gone[name] }))
	}
	lists := slices.DeleteFunc(m.quorum.Lists(), func(names []string) bool { return slices.Equal(names, tr.names) })
	r.lists[m.name] = Report(m.name, append(lists, tr.names))
	w.say("%s learns %v; silent: %v; it was bound by %v; ends before it acts: %t", m.name, tr.names, tr.silent, lists, lost)
	if lost {
		w.restart(m)
		return
	}
	m.quorum.SetMembers(w.clock(m), tr.names, all, tr.gone)
}

func (r *reports) allLearn(w *world, tr *truth) {
	for _, i := range w.random.Perm(len(w.members)) {
		r.learn(w, tr, w.members[i], false)
		w.run(time.Duration(w.random.Int64N(int64(100 * time.Millisecond))))
	}
}

// apart cuts two sides off from each other, and those that are cut from the API server.
func (r *reports) apart(w *world, cut ...string) {
	for i, a := range w.members {
		r.away[a.name] = slices.Contains(cut, a.name)
		for j, b := range w.members {
			w.cut[[2]int{i, j}] = slices.Contains(cut, a.name) != slices.Contains(cut, b.name)
		}
	}
}

// A rack is cut off that has a majority of the voters, and the owner of the address. Nodes join beside the rest, and then
// agents start again there: one by one as in a rollout, all at once, or while those are off that knew the older list.
func TestQuorum_StartsInACut(t *testing.T) {
	for _, tt := range []struct {
		name   string
		voters int
		cut    []string
		joined []string
	}{
		{name: "three voters", voters: 3, cut: []string{"n1", "n2"}, joined: []string{"n3", "n4"}},
		{name: "three control planes and two workers", voters: 5, cut: []string{"n0", "n3", "n4"}, joined: []string{"n5", "n6"}},
	} {
		for _, how := range []string{"rollout", "all at once", "first off", "before the others join", "all are new"} {
			t.Run(tt.name+", "+how, func(t *testing.T) {
				w, r := newWorld(t, 1, 7, 1), newReports()
				tr := &truth{names: w.names(tt.voters), gone: map[string]bool{}}
				for _, m := range w.members {
					m.off = !slices.Contains(tr.names, m.name)
					m.quorum.SetDraining(m.name != tt.cut[0])
				}
				r.allLearn(w, tr)
				w.run(2 * time.Second)
				owner := w.members[slices.Index(w.names(7), tt.cut[0])]
				if !owner.quorum.Owns(w.clock(owner), w.claims[0].Address) {
					t.Fatalf("%s does not own the address: nothing is tested", owner.name)
				}
				for _, m := range w.members {
					m.quorum.SetDraining(false)
				}
				r.apart(w, tt.cut...)
				w.run(5 * time.Second)
				r.renew(w)
				left := slices.DeleteFunc(w.names(tt.voters), func(name string) bool { return slices.Contains(tt.cut, name) })
				tr = &truth{names: left, silent: tt.cut, gone: tr.gone}
				r.allLearn(w, tr)
				starts := func(names ...string) {
					for _, name := range names {
						m := w.members[slices.Index(w.names(7), name)]
						w.restart(m)
						r.learn(w, tr, m, false)
					}
				}
				switch how {
				case "before the others join":
					starts(left...)
				case "all are new":
					for _, m := range w.members {
						m.off = m.off || slices.Contains(left, m.name)
					}
					tr = &truth{silent: tt.cut, gone: map[string]bool{}}
					for _, name := range left {
						tr.gone[name] = true
						delete(r.lists, name)
					}
				}
				for _, name := range tt.joined {
					tr = &truth{names: append(slices.Clone(tr.names), name), silent: tr.silent, gone: tr.gone}
					starts(name)
					r.allLearn(w, tr)
					w.run(5 * time.Second)
					r.renew(w)
				}
				switch how {
				case "rollout":
					for _, name := range tr.names {
						starts(name)
						w.run(3 * time.Second)
					}
				case "all at once", "all are new":
					starts(tr.names...)
				case "first off":
					w.members[slices.Index(w.names(7), left[0])].off = true
					starts(tt.joined...)
				}
				w.run(20 * time.Second)
				if w.untilOwned() > 0 {
					t.Error("the rack is a majority of the list that it knows, and nobody owns the address")
				}
			})
		}
	}
}

// More Nodes join at a time than there were, and the first ones have not learned of them: those that are new know only a
// list of which they are the majority.
func TestQuorum_MoreJoinThanThereWere(t *testing.T) {
	w, r := newWorld(t, 1, 7, 1), newReports()
	tr := &truth{names: w.names(3)}
	for _, m := range w.members {
		m.off = !slices.Contains(tr.names, m.name)
	}
	r.allLearn(w, tr)
	w.run(2 * time.Second)
	r.apart(w, tr.names...)
	tr = &truth{names: w.names(7)}
	for _, m := range w.members[3:] {
		w.restart(m)
		r.learn(w, tr, m, false)
	}
	w.run(5 * time.Second)
	if w.untilOwned() > 0 {
		t.Fatal("the three own nothing: nothing is tested")
	}
	r.apart(w)
	r.allLearn(w, tr)
	w.run(3 * time.Second)
	for _, m := range w.members {
		if lists := m.quorum.Lists(); len(lists) != 1 {
			t.Errorf("all know the newest list, and %s is bound by %d", m.name, len(lists))
		}
	}
}

// All voters are replaced, one after the other, and none of their Nodes is deleted. Then the first one is back: what it
// reported before has been left by the others, and stops nobody.
func TestQuorum_ComesBackAfterLong(t *testing.T) {
	w, r := newWorld(t, 1, 7, 1), newReports()
	for _, m := range w.members[3:] {
		m.off = true
	}
	r.allLearn(w, &truth{names: w.names(3)})
	w.run(2 * time.Second)
	var silent []string
	for i := range 3 {
		joins := w.members[3+i]
		w.members[i].off = true
		silent = append(silent, w.members[i].name)
		w.restart(joins)
		tr := &truth{names: w.names(4 + i)[i+1:], silent: silent}
		r.allLearn(w, tr)
		w.run(3 * time.Second)
		r.renew(w)
	}
	if w.untilOwned() > 0 {
		t.Fatal("nobody owns the address before the first one is back: nothing is tested")
	}
	w.restart(w.members[0])
	r.allLearn(w, &truth{names: []string{"n0", "n3", "n4", "n5"}, silent: []string{"n1", "n2"}})
	w.run(3 * time.Second)
	if w.untilOwned() > 0 {
		t.Error("what the first one reported before it was off keeps the address from an owner")
	}
}

// As [TestQuorum_DeadAgent], with a rollout of all that live behind each deletion.
func TestQuorum_DeadAgentAndStarts(t *testing.T) {
	for _, agents := range []int{3, 4, 5, 7} {
		t.Run(fmt.Sprint(agents), func(t *testing.T) {
			w, r := newWorld(t, uint64(agents), agents, 1), newReports()
			tr := &truth{names: w.names(agents), gone: map[string]bool{}}
			r.allLearn(w, tr)
			w.run(2 * time.Second)
			w.members[0].off = true
			tr = &truth{names: tr.names[1:], silent: tr.names[:1], gone: tr.gone}
			r.allLearn(w, tr)
			w.run(3 * time.Second)
			r.renew(w)
			for deleted := 1; deleted < agents-1; deleted++ {
				m := w.members[deleted]
				m.off = true
				delete(r.lists, m.name)
				gone := map[string]bool{m.name: true}
				for name := range tr.gone {
					gone[name] = true
				}
				tr = &truth{names: tr.names[1:], silent: tr.silent, gone: gone}
				r.allLearn(w, tr)
				w.run(3 * time.Second)
				r.renew(w)
				for _, m := range w.members[deleted+1:] {
					w.restart(m)
					r.learn(w, tr, m, false)
					w.run(3 * time.Second)
				}
				if w.untilOwned() > 0 {
					t.Fatalf("with %d deleted the address has no owner", deleted)
				}
			}
		})
	}
}

// Random histories of cuts, joins and silence as of [TestQuorum_JoinsDuringCuts], with agents that start again, and with
// reports that are late or are the last thing that an agent did.
func TestQuorum_StartsDuringCuts(t *testing.T) {
	eachHistory(t, 3, func(seed uint64) *world {
		w := newWorld(t, seed, 7, 2)
		startsDuringCuts(w, 2+int(seed%4))
		return w
	})
}

func startsDuringCuts(w *world, voters int) {
	r := newReports()
	for _, m := range w.members[voters:] {
		m.off = true
	}
	tr := &truth{names: w.names(voters)}
	r.allLearn(w, tr)
	w.run(2 * time.Second)
	here, there := w.divide(voters)
	for _, name := range there {
		r.away[name] = true
	}
	w.run(2 * time.Second)
	tr = &truth{names: here, silent: there}
	for _, joins := range w.members[voters:] {
		if w.random.IntN(4) > 0 {
			tr = &truth{names: slices.Sorted(slices.Values(append(slices.Clone(tr.names), joins.name))), silent: there}
			w.restart(joins)
		}
		for _, m := range w.members {
			if slices.Contains(tr.names, m.name) && w.random.IntN(5) > 0 {
				r.learn(w, tr, m, w.random.IntN(8) == 0)
			}
		}
		w.run(time.Duration(w.random.Int64N(int64(3 * time.Second))))
		w.silence(w.members[w.random.IntN(len(w.members))])
		for range w.random.IntN(4) {
			m := w.members[w.random.IntN(len(w.members))]
			if slices.Contains(there, m.name) && w.random.IntN(2) == 0 {
				continue
			}
			w.restart(m)
			r.learn(w, tr, m, false)
			w.run(time.Duration(w.random.Int64N(int64(2 * time.Second))))
		}
		if w.random.IntN(2) == 0 {
			r.renew(w)
		}
		w.run(time.Duration(w.random.Int64N(int64(3 * time.Second))))
	}
}
