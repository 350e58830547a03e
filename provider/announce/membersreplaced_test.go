package announce

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// replacement is how the machines of a cluster are replaced, one after the other.
type replacement struct {
	name   string
	nodes  int
	before bool          // the new machine joins before the old one goes
	missed time.Duration // at most, until the Node of the old one is deleted
	deaf   bool          // the agent is not dead: it has lost the API server
}

// Machines are replaced while the agent of one Node is dead, or learns of nothing, and the Node is Ready. Addresses have
// owners all the time, but for the seconds in which a machine that had one is missed. Two that are left of four own
// nothing until the cluster says that the third is gone.
func TestQuorum_NodesAreReplacedWhileAnAgentIsDead(t *testing.T) {
	for _, r := range []replacement{
		{name: "five, the old one goes first", nodes: 5, missed: 3 * time.Second},
		{name: "five, the new one comes first", nodes: 5, before: true, missed: 3 * time.Second},
		{name: "five, and the agent has lost the API server", nodes: 5, missed: 3 * time.Second, deaf: true},
		{name: "four, the old one goes first", nodes: 4},
		{name: "three, the new one comes first", nodes: 3, before: true},
	} {
		for dead := range r.nodes {
			t.Run(fmt.Sprintf("%s, n%d", r.name, dead), func(t *testing.T) {
				slowest := time.Duration(0)
				for seed := range uint64(2) {
					slowest = max(slowest, r.run(newWorld(t, seed, 2*r.nodes, 3), dead))
				}
				t.Logf("at most %s without an owner", slowest)
			})
		}
	}
}

// run returns the longest time without an owner.
func (r replacement) run(w *world, dead int) time.Duration {
	tr := &truth{names: w.names(r.nodes), gone: map[string]bool{}}
	for _, m := range w.members[r.nodes:] {
		m.off = true
	}
	w.allLearn(tr)
	w.members[dead].off, w.members[dead].deaf = !r.deaf, true
	w.run(5 * time.Second)
	join := func(m *simulated) {
		w.restart(m)
		tr.names = append(slices.Clone(tr.names), m.name)
		slices.Sort(tr.names)
		w.say("%s joins", m.name)
		w.allLearn(tr)
	}
	longest := time.Duration(0)
	for i, old := range w.members[:r.nodes] {
		if i == dead {
			continue
		}
		took := w.ownerless(func() {
			if r.before {
				join(w.members[r.nodes+i])
				w.run(3 * time.Second) // it grants nothing at first
			}
			w.say("%s dies", old.name)
			old.off = true
			w.run(time.Duration(w.random.Int64N(int64(r.missed + 1))))
			tr.names = slices.DeleteFunc(slices.Clone(tr.names), func(name string) bool { return name == old.name })
			tr.gone[old.name] = true
			w.allLearn(tr)
			if !r.before {
				join(w.members[r.nodes+i])
			}
			w.run(4 * time.Second)
		})
		if longest = max(longest, took); took > 2500*time.Millisecond {
			w.fail("an address had no owner for %s", took)
		}
	}
	return longest
}

// allLearn lets all that live learn who has a vote, one after the other.
func (w *world) allLearn(tr *truth) {
	for _, i := range w.random.Perm(len(w.members)) {
		w.learn(tr, w.members[i])
		w.run(time.Duration(w.random.Int64N(int64(100 * time.Millisecond))))
	}
}

// ownerless is the longest time for which one of the addresses has no owner meanwhile.
func (w *world) ownerless(meanwhile func()) time.Duration {
	longest, owned := time.Duration(0), map[netip.Addr]time.Duration{}
	for _, c := range w.claims {
		owned[c.Address] = w.now
	}
	w.checked = func() {
		for _, c := range w.claims {
			if w.owned[c.Address] > 0 {
				owned[c.Address] = w.now
			}
			longest = max(longest, w.now-owned[c.Address])
		}
	}
	meanwhile()
	w.checked = nil
	return longest
}
