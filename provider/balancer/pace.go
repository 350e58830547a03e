package balancer

import (
	"context"
	"time"
)

const (
	// minPause is the shortest time from one pass to the next once maxRow of them have followed each other.
	minPause = 200 * time.Millisecond
	// maxRow is how many passes may follow each other with no other pause than they took themselves.
	maxRow = 10
)

// pace keeps a pass for every change from taking all of the processor: whoever may write an EndpointSlice can change it a hundred times a
// second. A change after a rest is acted on at once.
type pace struct {
	row   int // passes that followed each other, less one for each minPause without any
	ended time.Time
}

// after notes a pass, and returns how long the next one waits: as long as this one worked, and the rest of minPause unless somebody waits
// for it. The time in which a pass waits for the API server is a pause for the processor.
func (p *pace) after(began, ended time.Time, worked time.Duration) (pause, rest time.Duration) {
	p.row = max(0, p.row-int(began.Sub(p.ended)/minPause)) + 1
	p.ended = ended
	pause = worked
	if p.row > maxRow {
		rest = max(0, minPause-pause)
	}
	return pause, rest
}

// restAfter waits after a pass. What somebody waits for ends the rest: a new Service, the report that its address is announced, and a
// call of upstream's service controller, which makes one after the other.
func restAfter(ctx context.Context, pause, rest time.Duration, urgent <-chan struct{}) {
	if !sleep(ctx, pause) || rest == 0 {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(rest):
	case <-urgent:
	}
}

// sleep reports whether ctx is still not done.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
