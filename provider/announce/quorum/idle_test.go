package quorum

import (
	"testing"
	"time"
)

// blind lets some members know of claims, or of none, one five milliseconds after the other.
func (w *world) blind(blind bool, members ...*simulated) {
	for _, m := range members {
		m.blind, m.next = blind, w.now
		w.run(5 * time.Millisecond)
	}
}

// sent is how many datagrams were sent in a while.
func (w *world) sentIn(d time.Duration) int {
	before := w.sent
	w.run(d)
	return w.sent - before
}

// Where no address is claimed no member sends anything. The first claim has an owner as soon as those who know of it have
// heard each other, whether the others know or not.
func TestQuorum_Idle(t *testing.T) {
	for _, tt := range []struct {
		name  string
		knows func(w *world) []*simulated
		most  time.Duration // until the address has an owner
	}{
		{"all know of the claim", func(w *world) []*simulated { return w.members }, 40 * time.Millisecond},
		{"one knows of the claim", func(w *world) []*simulated {
			w.claims[0].Candidates = w.names(1) // it cannot know that others do not know
			return w.members[:1]
		}, 40 * time.Millisecond},
		{"one is off", func(w *world) []*simulated {
			w.members[4].off = true
			return w.members[:4]
		}, wakeFor + 40*time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for seed := range uint64(50) {
				w := newWorld(t, seed, 5, 1)
				for _, m := range w.members {
					m.blind, m.quorum.LingerFor = true, 2*time.Second
					m.quorum.SetMembers(w.clock(m), w.names(5), nil, nil)
				}
				if busy := w.sentIn(2 * time.Second); busy < 5*4*15 {
					t.Errorf("seed %d: at first %d datagrams", seed, busy)
				}
				w.run(time.Second)
				if idle := w.sentIn(time.Minute); idle > 0 {
					t.Errorf("seed %d: %d datagrams in a minute without an address", seed, idle)
				}
				w.blind(false, tt.knows(w)...)
				if took := w.untilOwned(); took > tt.most {
					t.Errorf("seed %d: no owner for %s", seed, took)
				}
				w.run(5 * time.Second)
				if w.untilOwned() > 0 {
					t.Errorf("seed %d: the owner has lost the address", seed)
				}
				w.blind(true, w.members...)
				w.run(4 * time.Second)
				if idle := w.sentIn(time.Minute); idle > 0 {
					t.Errorf("seed %d: %d datagrams in a minute after the last address", seed, idle)
				}
			}
		})
	}
}

// A new list of members ends idleness for as long as it takes until all are bound by it alone. One that does not have it
// keeps the others from it, which go on.
func TestQuorum_IdleWithNewMembers(t *testing.T) {
	w := newWorld(t, 1, 4, 1)
	learn := func(n int, who ...*simulated) {
		for _, m := range who {
			m.quorum.SetMembers(w.clock(m), w.names(n), nil, nil)
			m.next = w.now
		}
	}
	for _, m := range w.members {
		m.blind, m.quorum.LingerFor = true, time.Second
	}
	learn(3, w.members[:3]...)
	w.run(10 * time.Second)
	learn(4, w.members...)
	w.run(3 * time.Second)
	if idle := w.sentIn(time.Minute); idle > 0 {
		t.Errorf("%d datagrams in a minute", idle)
	}
	for _, m := range w.members {
		if n := len(m.quorum.memberships.list); n != 1 {
			t.Errorf("%s is bound by %d lists", m.name, n)
		}
	}
}
