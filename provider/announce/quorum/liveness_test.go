package quorum

import (
	"testing"
	"time"
)

// Members look at all addresses once a second where nothing changes: also where one has died that had some.
func TestQuorum_LooksSeldom(t *testing.T) {
	w := newWorld(t, 1, 3, 4)
	for _, m := range w.members {
		m.quorum.SetMembers(w.clock(m), w.names(3), nil, nil)
	}
	w.run(2 * time.Second)
	looks := func(d time.Duration, members ...*simulated) {
		t.Helper()
		for _, m := range members {
			m.looks = 0
		}
		w.run(d)
		for _, m := range members {
			if most := int(d/lookAgain) + 2; m.looks > most {
				t.Errorf("%s looked %d times in %s, want %d at most", m.name, m.looks, d, most)
			}
		}
	}
	looks(10*time.Second, w.members...)
	dead := w.owner(t)
	dead.off = true
	w.run(3 * time.Second)
	var others []*simulated
	for _, m := range w.members {
		if m != dead {
			m.quorum.SetMembers(w.clock(m), names(w.members, dead), w.names(3), map[string]bool{})
			others = append(others, m)
		}
	}
	w.run(3 * time.Second)
	looks(10*time.Second, others...)
}

// Where two do not hear each other, one may want what the other has, for as long as that lasts. The others know when
// they could give it away at the earliest.
func TestQuorum_LooksSeldomWhereSomebodyWaits(t *testing.T) {
	w := newWorld(t, 1, 3, 12)
	for _, m := range w.members {
		m.quorum.SetMembers(w.clock(m), w.names(3), nil, nil)
	}
	w.run(2 * time.Second)
	w.cut[[2]int{0, 1}], w.cut[[2]int{1, 0}] = true, true
	w.run(5 * time.Second)
	for _, m := range w.members {
		m.looks = 0
	}
	w.run(10 * time.Second)
	waiting := 0
	for _, m := range w.members {
		for _, c := range w.claims {
			if m.quorum.requests[c.Address] != nil && !m.quorum.Owns(w.clock(m), c.Address) {
				waiting++
			}
		}
		if m.looks > 110 {
			t.Errorf("%s looked %d times in 10 s", m.name, m.looks)
		}
	}
	if waiting == 0 {
		t.Error("nobody waits: this shows nothing")
	}
}

// An address that its owner gives up for reasons of its own has one again at once.
func TestQuorum_WhoGivesUpIsElectedAgain(t *testing.T) {
	w := newWorld(t, 2, 3, 1)
	for _, m := range w.members {
		m.quorum.SetMembers(w.clock(m), w.names(3), nil, nil)
	}
	for range 20 {
		w.run(2500 * time.Millisecond)
		owner := w.owner(t)
		owner.quorum.Drop(w.clock(owner), w.claims[0].Address)
		w.run(time.Millisecond)
		if took := w.untilOwned(); took > 250*time.Millisecond {
			t.Errorf("nobody had the address for %s", took)
		}
	}
}

// owner is that of the first address.
func (w *world) owner(t *testing.T) *simulated {
	t.Helper()
	for _, m := range w.members {
		if !m.off && m.quorum.Owns(w.clock(m), w.claims[0].Address) {
			return m
		}
	}
	t.Fatal("the address has no owner")
	return nil
}

// names are those of all but one.
func names(members []*simulated, but *simulated) []string {
	var list []string
	for _, m := range members {
		if m != but {
			list = append(list, m.name)
		}
	}
	return list
}
