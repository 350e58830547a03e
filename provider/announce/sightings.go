package announce

import (
	"maps"
	"time"
)

// Sightings remember since when Nodes and pods are ready, or are not, by this machine's own clock. That of the machine which says so may be
// an hour off: an agent that compares the two would know other members than the rest for as long.
type Sightings map[string]sighting

type sighting struct {
	ready bool
	// said is the time of the change, by the clock of the machine that says so, and seen when this process learned of it.
	said, seen time.Time
	// first: this process knew no other state before, and goes by the other clock, too: what has lasted for long counts from the start.
	first bool
}

// Age takes in that something is ready, or is not, since the time that is said, and returns for how long: at least by this machine's clock,
// and at most by either.
func (s Sightings) Age(name string, ready bool, said, now time.Time) (least, most time.Duration) {
	last, known := s[name]
	if !known || last.ready != ready || !last.said.Equal(said) {
		last = sighting{ready: ready, said: said, seen: now, first: !known}
		s[name] = last
	}
	least, most = now.Sub(last.seen), max(now.Sub(last.seen), now.Sub(said))
	if last.first {
		least = most
	}
	return least, most
}

// Forget drops what is there no more.
func (s Sightings) Forget(there func(name string) bool) {
	maps.DeleteFunc(s, func(name string, _ sighting) bool { return !there(name) })
}
