package changes

import (
	"context"
	"time"
)

const (
	// MinPause is the shortest time from one look to the next once MaxRow of them have followed each other.
	MinPause = 200 * time.Millisecond
	// MaxRow is how many looks may follow each other with no other pause than they took themselves.
	MaxRow = 10
)

// Pace keeps a look for every change from taking all of the processor: a user who may write one object, such as an EndpointSlice, can change
// it a hundred times a second. A change after a rest is looked at at once.
type Pace struct {
	row   int // looks that followed each other, less one for each MinPause without any
	ended time.Time
}

// After notes a look, and returns how long the next one waits: a pause as long as this one worked, and the rest of MinPause, which may be cut
// short where a user waits. The time in which a look waits for others, such as the API server, is a pause for the processor, and no work.
func (p *Pace) After(began, ended time.Time, worked time.Duration) (pause, rest time.Duration) {
	p.row = max(0, p.row-int(began.Sub(p.ended)/MinPause)) + 1
	p.ended = ended
	pause = worked
	if p.row > MaxRow {
		rest = max(0, MinPause-pause)
	}
	return pause, rest
}

// Paced returns a set for [Follow] that rests after itself as [Pace] says. It does not rest once ctx is done.
func Paced(ctx context.Context, set func()) func() {
	var p Pace
	return func() {
		began := time.Now()
		set()
		ended := time.Now()
		pause, rest := p.After(began, ended, ended.Sub(began))
		Sleep(ctx, pause+rest)
	}
}

// Sleep reports whether ctx is still not done after d.
func Sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
