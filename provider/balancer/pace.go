package balancer

import (
	"context"
	"time"

	"github.com/ccmadm/ccmadm/provider/changes"
)

// restAfter waits after a pass. What a user waits for ends the rest: a new Service, the report that its address is announced, and a
// call of upstream's service controller, which makes one after the other.
func restAfter(ctx context.Context, pause, rest time.Duration, urgent <-chan struct{}) {
	if !changes.Sleep(ctx, pause) || rest == 0 {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(rest):
	case <-urgent:
	}
}
