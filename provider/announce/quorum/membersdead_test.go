package quorum

import (
	"fmt"
	"maps"
	"testing"
	"time"
)

// The agent of the first Node is dead, and its kubelet is not. The others are replaced one by one, and addresses always have an
// owner; or they are deleted and not replaced. Once the cloud-controller-manager has said in the API that the agent is silent, those
// that are left then keep every address, down to the last one. Without that word there comes a Node too many.
func TestQuorum_DeadAgent(t *testing.T) {
	for _, agents := range []int{3, 4, 5, 7, 10} {
		for _, replaced := range []bool{false, true} {
			for _, told := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d agents, replaced %v, told %v", agents, replaced, told), func(t *testing.T) {
					w := newWorld(t, uint64(agents), 2*agents, 2)
					tr := &truth{names: w.names(agents), gone: map[string]bool{}}
					for _, m := range w.members[agents:] {
						m.off = true
					}
					w.allLearn(tr)
					w.run(2 * time.Second)
					w.members[0].off = true
					w.run(2 * time.Second)
					if told {
						tr.names, tr.silent = tr.names[1:], tr.names[:1]
						w.allLearn(tr)
						w.run(3 * time.Second)
					}
					lost := 0
					for deleted := 1; deleted < agents-1 && lost == 0; deleted++ {
						if next := w.members[agents+deleted]; replaced {
							w.restart(next)
							tr.names = append(tr.names, next.name)
							w.allLearn(tr)
							w.run(3 * time.Second)
						}
						w.delete(tr, w.members[deleted])
						w.run(3 * time.Second)
						if w.untilOwned() > 0 {
							lost = deleted
						}
					}
					switch {
					case (told || replaced) && lost > 0:
						t.Errorf("with %d deleted an address has no owner", lost)
					case !told && !replaced && lost == 0:
						t.Error("nothing was lost without the manager's word: this shows nothing")
					}
				})
			}
		}
	}
}

// delete ends a member, whose Node the cluster has no more.
func (w *world) delete(tr *truth, m *simulated) {
	m.off = true
	tr.gone = maps.Clone(tr.gone)
	tr.gone[m.name] = true
	var left []string
	for _, name := range tr.names {
		if name != m.name {
			left = append(left, name)
		}
	}
	tr.names = left
	w.allLearn(tr)
}
