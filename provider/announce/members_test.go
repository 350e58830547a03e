package announce

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

// Who has a vote changes while some do not learn of it: even so nobody ever shares an address. Once all that live know
// who has a vote, all addresses have owners, though an agent is dead whose Node is Ready.
func TestQuorum_MembersComeAndGo(t *testing.T) {
	slowest, calm := time.Duration(0), 0
	for seed := range *histories / 3 {
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
				m.off = m.off || tr.gone[m.name] // the operator has said so
			}
			// Who starts waits until it has seen the cluster, and nothing is kept on disk: see ADR 17 for what that means.
			starts := slices.ContainsFunc(w.members, func(m *simulated) bool { return !m.off && len(m.quorum.Members()) == 0 })
			for _, m := range w.members {
				if starts || w.random.IntN(3) == 0 {
					w.learn(tr, m)
				}
			}
			w.run(time.Duration(w.random.Int64N(int64(1500 * time.Millisecond))))
		}
		w.calm()
		silent := w.members[w.random.IntN(len(w.members))]
		for _, m := range w.members {
			m.off = m == silent || tr.gone[m.name]
			m.quorum.SetDraining(false)
			w.learn(tr, m)
		}
		for i := range w.claims {
			w.claims[i].Candidates = tr.names // who has no vote does not hear another one that has none
		}
		w.say("calm, and %s is off", silent.name)
		if !w.enough() {
			continue
		}
		took := w.untilOwned()
		slowest, calm = max(slowest, took), calm+1
		if w.run(3 * time.Second); took > 3*time.Second || w.untilOwned() > 0 || w.mostLists() > 1 {
			w.fail("seed %d: owners after %s, and somebody is bound by %d lists", seed, took, w.mostLists())
		}
	}
	t.Logf("%d histories; slowest return to an owner for each address, in %d of them: %s", *histories/3, calm, slowest)
}

// enough says whether those that live are most of each list that binds one of them.
func (w *world) enough() bool {
	lives := func(name string) bool {
		return slices.ContainsFunc(w.members, func(m *simulated) bool { return m.name == name && !m.off })
	}
	for _, m := range w.members {
		for _, id := range m.quorum.memberships.list {
			if !m.off && !m.quorum.memberships.most(m.quorum.memberships.known[id], lives) {
				return false
			}
		}
	}
	return true
}

// mostLists is how many bind one that lives.
func (w *world) mostLists() int {
	most := 0
	for _, m := range w.members {
		if !m.off {
			most = max(most, len(m.quorum.memberships.list))
		}
	}
	return most
}

// What a member must have a majority of, as lists come and as a quorum has learned of them.
func TestQuorum_KeepsOlderListsUntilAQuorumKnowsTheNewest(t *testing.T) {
	w := newWorld(t, 1, 5, 1)
	learn := func(names []string, who ...int) {
		for _, i := range who {
			w.members[i].quorum.SetMembers(w.clock(w.members[i]), names, nil, nil)
		}
	}
	check := func(what string, want ...int) {
		t.Helper()
		w.run(3 * time.Second)
		for i, n := range want {
			if got := len(w.members[i].quorum.memberships.list); got != n {
				t.Errorf("%s, and n%d is bound by %d lists, want %d", what, i, got, n)
			}
		}
		if w.untilOwned() > 0 {
			t.Errorf("%s, and nobody owns the address", what)
		}
	}
	learn(w.names(3), 0, 1, 2)
	check("all have the first", 1, 1, 1)
	learn(w.names(5), 2, 3, 4)
	check("a majority of the newest has it, and none of the older one", 1, 1, 2, 1, 1)
	learn(w.names(5), 1)
	check("majorities of both have the newest", 1, 1, 1, 1, 1)
	if w.members[0].quorum.memberships.newest() == w.members[1].quorum.memberships.newest() {
		t.Error("n0 has the newest: nothing is tested")
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
