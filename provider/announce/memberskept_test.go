package announce

import (
	"testing"
	"time"
)

// As [TestQuorum_MembersComeAndGo], with agents that report what binds them, start with that, and now and then do not
// reach the API server, end behind a report, or report late.
func TestQuorum_MembersComeAndGoAndStart(t *testing.T) {
	for seed := range *histories / 3 {
		w, r := newWorld(t, seed, 6, 2), newReports()
		tr := &truth{names: w.names(1 + int(seed%5)), gone: map[string]bool{}}
		r.allLearn(w, tr)
		w.run(1500 * time.Millisecond)
		for range 15 {
			if w.random.IntN(3) == 0 {
				w.change(tr)
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
}
