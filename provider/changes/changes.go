// Package changes gathers what has changed, so that a program looks at it once for many events.
//
// Start at [New] and [Follow], and at [Paced] or [Pace] for looks that take long. Reads and writes: nothing.
package changes

import (
	"context"
	"time"
)

// settle is how long changes gather before they are looked at.
const settle = 10 * time.Millisecond

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
