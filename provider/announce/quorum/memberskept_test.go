package quorum

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// As [TestQuorum_MembersComeAndGo], with agents that report what binds them, start with that, and now and then do not
// reach the API server, end behind a report, or report late.
func TestQuorum_MembersComeAndGoAndStart(t *testing.T) {
	eachHistory(t, 3, func(seed uint64) *world {
		w, r := newWorld(t, seed, 6, 2), newReports()
		tr := &truth{names: w.names(1 + int(seed%5)), gone: map[string]bool{}}
		r.allLearn(w, tr)
		w.run(1500 * time.Millisecond)
		r.disturb(w, tr, 15, w.change)
		w.allAreBack(r, tr)
		w.wantOwners(seed)
		return w
	})
}

// disturb changes who has a vote and brings faults, again and again. Some agents learn of it, and report what binds them.
func (r *reports) disturb(w *world, tr *truth, times int, change func(*truth)) {
	for range times {
		if w.random.IntN(3) == 0 {
			change(tr)
		}
		if w.random.IntN(2) == 0 {
			w.fault()
		}
		away := w.members[w.random.IntN(len(w.members))]
		r.away[away.name] = w.random.IntN(2) == 0
		for _, m := range w.members {
			if tr.gone[m.name] {
				m.off = true
				delete(r.lists, m.name)
			} else if len(m.quorum.Lists()) == 0 || w.random.IntN(3) == 0 {
				r.learn(w, tr, m, w.random.IntN(10) == 0)
			}
		}
		if w.random.IntN(3) == 0 {
			r.renew(w)
		}
		w.run(time.Duration(w.random.Int64N(int64(1500 * time.Millisecond))))
	}
}

// wantOwners fails where addresses have no owner soon, and returns how long that takes.
func (w *world) wantOwners(seed uint64) time.Duration {
	took := w.untilOwned()
	if took > 1300*time.Millisecond {
		for _, m := range w.members {
			w.say("%s is bound by %v", m.name, m.quorum.Lists())
		}
		w.t.Fatalf("seed %d: all Nodes are back, and owners after %s:\n%s", seed, took, strings.Join(w.log, "\n"))
	}
	return took
}

// The first of two Nodes is cut off with the address, and the second is off when three join at once: nobody whom they hear
// knows the list of the two, and the reports have it.
func TestQuorum_JoinBesideOneThatIsOff(t *testing.T) {
	w, r := newWorld(t, 1, 5, 1), newReports()
	for _, m := range w.members[:2] {
		r.learn(w, &truth{names: w.names(2)}, m, false)
	}
	w.run(2 * time.Second)
	r.apart(w, "n0")
	w.members[1].off = true
	w.run(2 * time.Second)
	for _, m := range w.members[2:] {
		r.learn(w, &truth{names: w.names(5)[1:], silent: []string{"n0"}}, m, false)
	}
	w.run(5 * time.Second)
	if w.untilOwned() > 0 {
		t.Error("the first one decides in case of a draw, and does not own the address")
	}
}

// allAreBack ends all faults, but those of Nodes that are gone, and runs for a while.
func (w *world) allAreBack(r *reports, tr *truth) {
	clear(r.away)
	w.calm()
	for _, m := range w.members {
		m.quorum.SetDraining(false)
		m.off = tr.gone[m.name]
	}
	tr.names, tr.silent = slices.Sorted(slices.Values(slices.Concat(tr.names, tr.silent))), nil
	w.say("back: %v, gone %v", tr.names, tr.gone)
	for range 3 {
		r.allLearn(w, tr)
		w.run(2 * time.Second)
	}
}

// What one agent reports stops no other one, whether it starts or joins, and whatever lists those are.
func TestQuorum_OneReportStopsNobody(t *testing.T) {
	w, r := newWorld(t, 1, 6, 1), newReports()
	for _, m := range w.members[4:] {
		m.off = true
	}
	tr := &truth{names: w.names(4), gone: map[string]bool{}}
	r.allLearn(w, tr)
	w.run(2 * time.Second)
	hostile := w.members[3]
	hostile.off = true
	for _, names := range [][]string{{"n3"}, {"n3", "n0"}, {"n3", "n3", "n0"}, {"n4", "n5", "n3"}, {"n3", "x", "y"}} {
		r.lists["n3"] = append(r.lists["n3"], v1alpha1.NewVoterList(names))
	}
	tr = &truth{names: w.names(3), silent: []string{"n3"}, gone: tr.gone}
	r.allLearn(w, tr)
	w.run(3 * time.Second)
	r.renew(w)
	tr = &truth{names: []string{"n0", "n1", "n2", "n4"}, silent: tr.silent, gone: tr.gone}
	for _, i := range []int{0, 1, 2, 4} {
		w.restart(w.members[i])
		r.learn(w, tr, w.members[i], false)
	}
	w.run(3 * time.Second)
	if w.untilOwned() > 0 {
		t.Error("nobody owns the address")
	}
	for _, i := range []int{0, 1, 2, 4} {
		if lists := w.members[i].quorum.Lists(); len(lists) != 1 {
			t.Errorf("n%d is bound by %v", i, lists)
		}
	}
}
