package routes

import (
	"net/netip"
	"slices"
	"time"
)

// holdTime is how long the route to a Node that went is kept: a Node that is deleted and registered again, or a
// controller that deletes a route in order to make it again, leaves no gap.
const holdTime = 10 * time.Second

// holder remembers the routes of Nodes that went.
type holder struct {
	last map[netip.Prefix]held
}

// held is an intent; since is when it was missing for the first time.
type held struct {
	intent Intent
	since  time.Time
}

// hold adds to the intents those that were among them less than holdTime ago, unless the range has another Node by now.
// The second result is when the next of them ends; zero if none is held.
func (h *holder) hold(now time.Time, intents []Intent) (list []Intent, next time.Time) {
	current := make(map[netip.Prefix]held, len(intents))
	for _, intent := range intents {
		current[intent.Destination] = held{intent: intent}
	}
	list = slices.Clone(intents)
	for destination, old := range h.last {
		if _, there := current[destination]; there || !old.intent.Via.IsValid() {
			continue
		}
		if old.since.IsZero() {
			old.since = now
		}
		ends := old.since.Add(holdTime)
		if !now.Before(ends) {
			continue
		}
		current[destination] = old
		list = append(list, old.intent)
		if next.IsZero() || ends.Before(next) {
			next = ends
		}
	}
	h.last = current
	slices.SortFunc(list, func(a, b Intent) int { return a.Destination.Compare(b.Destination) })
	return list, next
}
