// Package changes gathers what has changed, so that a program looks at it once for many events.
//
// Start at [New] and [Follow], and at [Paced] for looks that take long. Reads and writes: nothing.
package changes

import (
	"context"
	"time"
)

const (
	// settle is how long changes gather before they are looked at.
	settle = 10 * time.Millisecond
	// pace is the shortest time between two looks where changes do not end.
	pace = 200 * time.Millisecond
	// free is how many looks may follow each other without it, after a rest.
	free = 10
)

// New is for what has changed, however often: poke does not wait.
func New() (changed <-chan struct{}, poke func()) {
	c := make(chan struct{}, 1)
	return c, func() {
		select {
		case c <- struct{}{}:
		default: // it will be looked at anyway
		}
	}
}

// Follow calls set for each bunch of changes, until ctx is done, or something that works has ended with an error.
func Follow(ctx, working context.Context, changed <-chan struct{}, set func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-working.Done():
			return
		case <-changed:
			time.Sleep(settle)
			set()
		}
	}
}

// Paced returns a set for [Follow] that rests after itself, for as long as it took at least: who may write one object can cause changes
// without end, and half of the time is left for other work. After free looks in a row there is a pace between them, too. A change after
// a rest is looked at as soon as without it. It does not rest once ctx is done.
func Paced(ctx context.Context, set func()) func() {
	var allowed time.Time // of the next look, if none were free
	return func() {
		began := time.Now()
		set()
		if allowed.Before(began) {
			allowed = began
		}
		allowed = allowed.Add(pace)
		rest := max(time.Since(began), time.Until(allowed)-free*pace)
		select {
		case <-ctx.Done():
		case <-time.After(rest):
		}
	}
}
