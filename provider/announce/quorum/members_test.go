package quorum

import (
	"maps"
	"slices"
	"testing"
	"time"
)

// truth is the list of members as the cluster has it. Members learn of it late, and some not at all.
type truth struct {
	names  []string
	silent []string
	gone   map[string]bool
}

// change adds members, or takes some away: those that are only silent, and now and then one that is off for good.
func (w *world) change(tr *truth) {
	if w.random.IntN(2) == 0 {
		for range 1 + w.random.IntN(2) {
			name := w.members[w.random.IntN(len(w.members))].name
			if !slices.Contains(tr.names, name) && !tr.gone[name] {
				tr.names = append(slices.Clone(tr.names), name)
				tr.silent = slices.DeleteFunc(slices.Clone(tr.silent), func(s string) bool { return s == name })
			}
		}
	} else if len(tr.names) > 1 {
		i := w.random.IntN(len(tr.names))
		name := tr.names[i]
		tr.names = slices.Delete(slices.Clone(tr.names), i, i+1)
		if w.random.IntN(4) == 0 {
			m := w.members[slices.IndexFunc(w.members, func(m *simulated) bool { return m.name == name })]
			m.off, tr.gone[name] = true, true
		} else {
			tr.silent = append(slices.Clone(tr.silent), name)
		}
	}
	slices.Sort(tr.names)
	w.say("members %v, gone %v", tr.names, tr.gone)
}

func (w *world) learn(tr *truth, m *simulated) {
	if !m.off {
		all := slices.Concat(tr.names, tr.silent)
		slices.Sort(all)
		m.quorum.SetMembers(w.clock(m), tr.names, all, maps.Clone(tr.gone))
	}
}

// Who has a vote changes while some do not learn of it: even so nobody ever shares an address.
func TestQuorum_MembersComeAndGo(t *testing.T) {
	eachHistory(t, 3, func(seed uint64) *world {
		w := newWorld(t, seed, 6, 2)
		tr := &truth{names: w.names(1 + int(seed%5)), gone: map[string]bool{}}
		for _, m := range w.members {
			w.learn(tr, m)
		}
		w.run(1500 * time.Millisecond)
		for range 15 {
			if w.random.IntN(3) == 0 {
				w.change(tr)
			}
			if w.random.IntN(3) == 0 {
				w.fault()
			}
			for _, m := range w.members {
				if tr.gone[m.name] {
					m.off = true // the operator has said so
				} else if len(m.quorum.Members()) == 0 || w.random.IntN(3) == 0 {
					w.learn(tr, m) // who starts waits until it has seen the cluster
				}
			}
			w.run(time.Duration(w.random.Int64N(int64(1500 * time.Millisecond))))
		}
		return w
	})
}

// What a member must have a majority of, as lists come: an older list ends when majorities of it and of the newest have the newest,
// and not before, though one member never learns of it.
func TestQuorum_KeepsOlderListsUntilMajoritiesKnowTheNewest(t *testing.T) {
	w := newWorld(t, 1, 6, 1)
	learn := func(names []string, who ...int) {
		for _, i := range who {
			w.members[i].quorum.SetMembers(w.clock(w.members[i]), names, nil, nil)
		}
	}
	bound := func(want int, who ...int) {
		t.Helper()
		for _, i := range who {
			if got := len(w.members[i].quorum.memberships.list); got != want {
				t.Errorf("%s is bound by %d lists, want %d", w.members[i].name, got, want)
			}
		}
	}
	learn(w.names(3), 0, 1, 2)
	w.run(2 * time.Second)
	learn(w.names(6), 0, 3, 4, 5)
	w.run(3 * time.Second)
	bound(2, 0) // a majority of the newest, and no majority of the older one
	learn(w.names(6), 1)
	w.run(time.Second)
	bound(2, 0, 1) // what was granted before counts for a while
	w.run(2 * time.Second)
	bound(1, 0, 1)
	if w.untilOwned() > 0 {
		t.Error("nobody owns the address")
	}
}

// A majority of the older list has the newest, and no majority of the newest: an agent of it that started would find it in too few reports.
func TestQuorum_KeepsOlderListsUntilTheNewestIsReported(t *testing.T) {
	w := newWorld(t, 1, 6, 1)
	for i, m := range w.members[:3] {
		m.quorum.SetMembers(w.clock(m), w.names(3), nil, nil)
		w.members[3+i].off = true
	}
	w.run(2 * time.Second)
	for _, m := range w.members[:2] {
		m.quorum.SetMembers(w.clock(m), []string{"n0", "n3", "n4", "n5"}, nil, nil)
	}
	w.run(3 * time.Second)
	if got := len(w.members[0].quorum.Lists()); got != 2 {
		t.Errorf("n0 is bound by %d lists, want 2", got)
	}
}

// A Node is cut off for longer than it is remembered, and others come meanwhile: it has no vote, and is forgotten. When it is back
// it may own addresses, and grant them, as any other.
func TestQuorum_OneThatWasForgottenComesBack(t *testing.T) {
	w := newWorld(t, 1, 4, 1)
	learn := func(names []string, who ...int) {
		for _, i := range who {
			w.members[i].quorum.SetMembers(w.clock(w.members[i]), names, nil, nil)
		}
	}
	drain := func(draining bool, who ...int) {
		for _, i := range who {
			w.members[i].quorum.SetDraining(draining)
		}
	}
	owner := func() string { return w.members[0].quorum.Owner(w.clock(w.members[0]), w.claims[0].Address) }
	learn(w.names(3), 0, 1, 2)
	drain(true, 0, 1)
	w.run(2 * time.Second)
	if got := owner(); got != "n2" {
		t.Fatalf("%q owns the address, want the one that does not drain", got)
	}
	drain(false, 0, 1)
	for _, i := range []int{0, 1, 3} {
		w.cut[[2]int{i, 2}], w.cut[[2]int{2, i}] = true, true
	}
	w.run(2 * time.Second)
	learn(w.names(2), 0, 1)
	w.run(2 * time.Second)
	learn([]string{"n0", "n1", "n3"}, 0, 1, 3)
	w.run(2 * time.Second)
	if w.members[0].quorum.peers["n2"] != nil {
		t.Fatal("n0 knows the one that was cut off: nothing is tested")
	}
	clear(w.cut)
	learn(w.names(4), 0, 1, 2, 3)
	drain(true, 0, 1, 3)
	w.run(2 * time.Second)
	if got := owner(); got != "n2" {
		t.Errorf("%q owns the address, want the one that is back", got)
	}
	drain(false, 0)
	drain(true, 2)
	w.run(2 * time.Second)
	if got := owner(); got != "n0" {
		t.Errorf("%q owns the address, want the one to which it is handed back", got)
	}
}
