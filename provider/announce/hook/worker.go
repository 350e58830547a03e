package hook

import (
	"context"
	"net/netip"
	"time"

	"github.com/ccmadm/ccmadm/provider/endpoint"
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
	called  bool // that it has made a call since the takeover or a change; run alone reads it

	// Under the lock of the caller:
	wants     order
	interrupt context.CancelFunc // ends the call under way, if there is one
}

// poke asks for a call before its time, since it would be another one.
func (w *worker) poke() {
	select {
	case w.again <- struct{}{}:
	default: // it will anyway
	}
}

// run calls until ctx is done. At first that is the contact.
func (w *worker) run(ctx context.Context, first contact) {
	retry := w.rest(ctx, first, takenAgain)
	var unready time.Time // since when it cannot be called
	for raises := 0; ; {
		want, a, there := w.call(ctx)
		if !there || ctx.Err() != nil {
			return
		}
		if a.outdated {
			retry, raises = w.changed(ctx, want, retry), 0
			continue
		}
		if want.problem == "" {
			unready = time.Time{}
		} else if unready.IsZero() {
			unready = time.Now()
		}
		pause := endpoint.Jitter(want.hook.RepeatAfter.Duration)
		switch {
		case a.lost:
			pause = lostAgain
		case a.held > 0:
			w.later("is called later: an answer had Retry-After")
			pause = a.held
		case a.known >= want.body.Generation && raises < maxRaises:
			raises++
			w.raise(a.known)
			continue
		case a.problem != "":
			retry = min(max(retryFirst, 2*retry), retryMost)
			pause = max(endpoint.Jitter(retry), w.caller.held(want)) // no sooner than the endpoint says
		default:
			retry = 0
		}
		raises = 0
		if !a.lost && a.held == 0 && (unready.IsZero() || time.Since(unready) > unreadyFor) {
			w.note(want, a.problem)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		case <-w.again:
			retry = w.changed(ctx, want, retry)
		}
	}
}

// order is the one of now, and the context of a call by it, which ends when the hook, its token or the Node change. False: this Node does
// not own the address any more, or its pool has no hook.
func (w *worker) order(ctx context.Context) (context.Context, order, bool) {
	w.caller.mu.Lock()
	defer w.caller.mu.Unlock()
	if w.caller.owned[w.address] != w.owned {
		return ctx, order{}, false
	}
	want, there := w.caller.order(w.address)
	w.wants = want
	select {
	case <-w.again: // this is what it was poked for
	default:
	}
	w.interrupt()
	ctx, w.interrupt = context.WithCancel(ctx)
	want.body.Generation = w.owned.generation
	return ctx, want, there
}

// raise takes a generation greater than the one that the endpoint has, of a former owner whose clock is ahead.
func (w *worker) raise(known int64) {
	w.caller.mu.Lock()
	defer w.caller.mu.Unlock()
	w.owned.generation = max(known+1, w.owned.generation)
}

// call makes one call, by the order of the moment at which it may begin: the hook may have changed while it waited for other calls. Package
// l2 ends it when this Node loses the address; where the machine was suspended, it finds out later than this. False: see order.
func (w *worker) call(ctx context.Context) (want order, a answer, there bool) {
	release := func() {}
	defer func() { release() }()
	var calling context.Context
	for pool := ""; ; pool = want.body.Pool {
		calling, want, there = w.order(ctx)
		if !there || want.problem != "" {
			return want, answer{problem: want.problem}, there
		}
		if held := w.caller.held(want); held > 0 {
			return want, answer{held: held}, true
		}
		if want.body.Pool == pool {
			break
		}
		release()
		if release, there = w.caller.slot(ctx, want.body.Pool); !there {
			return want, answer{}, false
		}
	}
	if !w.caller.Owns(w.address) {
		return want, answer{lost: true}, true
	}
	w.paced()
	began := time.Now()
	a = w.caller.send(calling, want)
	w.caller.hold(want, a)
	if calling.Err() != nil {
		return want, answer{outdated: true}, true
	}
	w.caller.Observe(a.result(), time.Since(began))
	return want, a, true
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
		return func() {}, false
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
	case before.message == "", before.uncalled:
		now.since = time.Now()
		c.Failed(want.claim, problem)
		fallthrough
	default:
		c.Log.Info("The hook of an AddressPool fails", "address", w.address, "pool", want.body.Pool, "reason", problem)
	}
	w.owned.failure = now
	c.Changed()
}

// later reports why no call is made yet, unless calls fail. That is no Event, and what becomes of the first call takes its place.
func (w *worker) later(reason string) {
	c := w.caller
	c.mu.Lock()
	defer c.mu.Unlock()
	before := w.owned.failure
	if c.owned[w.address] != w.owned || before.message == reason || before.message != "" && !before.uncalled {
		return
	}
	w.owned.failure = failure{message: reason, since: time.Now(), uncalled: true}
	c.Log.Info("The hook of an AddressPool is called later", "address", w.address, "reason", reason)
	c.Changed()
}
