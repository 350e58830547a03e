package hook

import (
	"context"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// retryFirst and retryMost are the shortest and the longest pause after a call that failed; each is twice the one before.
	retryFirst = 500 * time.Millisecond
	retryMost  = time.Minute
	// lostAgain is when an owner looks again that was told nothing of its loss yet.
	lostAgain = 100 * time.Millisecond
	// unreadyFor is how long it is no news that there is no token: it is read every ten seconds.
	unreadyFor = 12 * time.Second
	// maxRaises is how often in a row an endpoint may have a greater generation, and is called with one that is greater still.
	maxRaises = 3
)

// worker calls the hook for one address as long as this Node owns it.
type worker struct {
	caller  *Caller
	address netip.Addr
	owned   *ownership
	end     context.CancelFunc
	again   chan struct{}
	wants   order // under the lock of the caller
}

// poke asks for a call at once, since it would be another one.
func (w *worker) poke() {
	select {
	case w.again <- struct{}{}:
	default: // it will anyway
	}
}

// run calls until ctx is done.
func (w *worker) run(ctx context.Context) {
	var retry time.Duration
	var unready time.Time // since when it cannot be called
	for raises := 0; ; {
		want, there := w.order()
		if !there {
			return
		}
		a := w.call(ctx, want)
		if ctx.Err() != nil {
			return
		}
		if want.problem == "" {
			unready = time.Time{}
		} else if unready.IsZero() {
			unready = time.Now()
		}
		pause := jitter(want.hook.RepeatAfter.Duration)
		switch {
		case a.lost:
			pause = lostAgain
		case a.known >= want.body.Generation && raises < maxRaises:
			raises++
			w.raise(a.known)
			continue
		case a.problem != "":
			retry = min(max(retryFirst, 2*retry), retryMost)
			pause = max(jitter(retry), min(a.after, want.hook.RepeatAfter.Duration))
		default:
			retry = 0
		}
		raises = 0
		if !a.lost && (unready.IsZero() || time.Since(unready) > unreadyFor) {
			w.note(want, a.problem)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		case <-w.again:
			retry = 0
		}
	}
}

// order is the one of now. False: this Node does not own the address any more, or its pool has no hook.
func (w *worker) order() (order, bool) {
	w.caller.mu.Lock()
	defer w.caller.mu.Unlock()
	if w.caller.owned[w.address] != w.owned {
		return order{}, false
	}
	want, there := w.caller.order(w.address)
	w.wants = want
	want.body.Generation = w.owned.generation
	return want, there
}

// raise takes a generation greater than the one that the endpoint has, of a former owner whose clock is ahead.
func (w *worker) raise(known int64) {
	w.caller.mu.Lock()
	defer w.caller.mu.Unlock()
	w.owned.generation = max(known+1, w.owned.generation)
}

// call makes one call. Package l2 ends it when this Node loses the address; where the machine was suspended, it finds out later than this.
func (w *worker) call(ctx context.Context, want order) answer {
	if want.problem != "" {
		return answer{problem: want.problem}
	}
	release, ok := w.caller.slot(ctx, want.body.Pool)
	if !ok {
		return answer{}
	}
	defer release()
	if !w.caller.Owns(w.address) {
		return answer{lost: true}
	}
	began := time.Now()
	a := w.caller.send(ctx, want)
	if ctx.Err() == nil {
		w.caller.Observe(a.result(), time.Since(began))
	}
	return a
}

// slot waits until few enough calls for addresses of the pool are under way; false: ctx is done.
func (c *Caller) slot(ctx context.Context, pool string) (release func(), ok bool) {
	c.mu.Lock()
	slots := c.calls[pool]
	if slots == nil {
		slots = make(chan struct{}, maxCalls)
		c.calls[pool] = slots
	}
	c.mu.Unlock()
	select {
	case <-ctx.Done():
		return nil, false
	case slots <- struct{}{}:
		return func() { <-slots }, true
	}
}

// note keeps what became of a call, and says so once.
func (w *worker) note(want order, problem string) {
	c := w.caller
	c.mu.Lock()
	defer c.mu.Unlock()
	before := w.owned.failure
	if before.message == problem || c.owned[w.address] != w.owned {
		return
	}
	now := failure{message: problem, since: before.since}
	switch {
	case problem == "":
		now.since = time.Time{}
		c.Log.Info("The hook of an AddressPool succeeds again", "address", w.address, "pool", want.body.Pool)
	case before.message == "":
		now.since = time.Now()
		c.Failed(want.claim, problem)
		fallthrough
	default:
		c.Log.Info("The hook of an AddressPool fails", "address", w.address, "pool", want.body.Pool, "reason", problem)
	}
	w.owned.failure = now
	c.Changed()
}

// jitter makes it up to a tenth shorter or longer, so that agents do not call all at once.
func jitter(d time.Duration) time.Duration { return wait.Jitter(d*9/10, 2.0/9) }
