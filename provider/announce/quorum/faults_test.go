package quorum

import (
	"slices"
	"time"
)

// seen are the claims as a member knows them: some know earlier than others where endpoints end.
func (w *world) seen(m *simulated) []Claim {
	if m.blind {
		return nil
	}
	claims := slices.Clone(w.claims)
	for i := range claims {
		claims[i].Ending = m.ending
	}
	if w.know != nil {
		return w.know(m, claims)
	}
	return claims
}

func (w *world) calm() {
	clear(w.cut)
	w.loss, w.delay = 0, 5*time.Millisecond
	for _, m := range w.members {
		m.frozen, m.ending, m.blind, m.next = 0, w.members[0].ending, false, w.now
		if m.off {
			w.restart(m)
		}
	}
	w.flying = slices.DeleteFunc(w.flying, func(f flight) bool { return f.at > w.now+w.delay })
}

func (w *world) fault() {
	n := len(w.members)
	i, j := w.random.IntN(n), w.random.IntN(n)
	m := w.members[i]
	switch w.random.IntN(12) {
	case 0:
		w.say("restart %s", m.name)
		w.restart(m)
	case 1:
		w.say("off %s", m.name)
		m.off = true
	case 2:
		if m.off {
			w.say("on %s", m.name)
			w.restart(m)
		}
	case 3:
		w.say("one way %d-%d", i, j)
		w.cut[[2]int{i, j}] = true
	case 4:
		side := w.random.Uint64()
		w.say("partition %x", side&(1<<n-1))
		for a := range n {
			for b := range n {
				if side>>a&1 != side>>b&1 {
					w.cut[[2]int{a, b}] = true
				}
			}
		}
	case 5:
		w.say("heal")
		clear(w.cut)
	case 6:
		w.loss = w.random.Float64() * 0.7
		w.say("loss %.2f", w.loss)
	case 7:
		w.delay = 1 + time.Duration(w.random.Int64N(int64(2*time.Second)))
		w.say("delay %s", w.delay)
	case 8:
		m.frozen = w.now + time.Duration(w.random.Int64N(int64(3*time.Second)))
		w.say("freeze %s until %s", m.name, m.frozen)
	case 9:
		m.quorum.SetDraining(w.random.IntN(2) == 0)
		w.say("drain %s", m.name)
	case 10:
		m.ending = w.names(j)
		w.say("%s knows that endpoints end on %s", m.name, m.ending)
	case 11:
		blind := w.random.IntN(2) == 0
		for k, m := range w.members {
			if k != i || n == 1 {
				m.blind, m.next = blind, min(m.next, w.now)
			}
		}
		w.say("all but %s know of claims: %t", m.name, !blind)
	}
}
