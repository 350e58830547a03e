package lbtest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ccmadm/ccmadm/doctor/retry"
)

// An API server that restarts is back after a minute or two; one request has apiTimeout, and all tries together apiPatience.
const (
	apiTimeout  = 15 * time.Second
	apiPatience = 3 * time.Minute
	often       = 250 * time.Millisecond
)

// asker sends requests to the API server, and sends those again that it may answer otherwise in a moment.
type asker struct {
	tell func(string, ...any)
	// patience is how long a request is repeated.
	patience time.Duration

	mu      sync.Mutex
	retries int
	waiting bool
}

func (a *asker) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.retries
}

// do sends a request until it is answered for good. Its error is that answer, or the last one after apiPatience, with what was asked.
func (a *asker) do(ctx context.Context, what string, request func(context.Context) error) error {
	return a.doFor(ctx, apiTimeout, what, request)
}

// doFor is do with a time for each try.
func (a *asker) doFor(ctx context.Context, timeout time.Duration, what string, request func(context.Context) error) error {
	err := retry.Do(ctx, timeout, a.patience, func(err error) { a.again(what, err) }, request)
	switch {
	case err == nil:
		a.answered()
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", what, context.Cause(ctx))
	case retry.Temporary(err):
		return fmt.Errorf("%s: the API server did not answer for %s: %w", what, a.patience, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// again counts, and says the first of several in a row.
func (a *asker) again(what string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.retries++
	if !a.waiting {
		a.waiting = true
		a.tell("%s: %v; sending the request again", what, err)
	}
}

func (a *asker) answered() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting = false
}
