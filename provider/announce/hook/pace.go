package hook

import (
	"context"
	"maps"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// gapFirst and gapMost are the shortest and the longest time between the first calls of two takeovers of an address by this Node; each
	// is twice the one before. Other Nodes have gaps of their own. A Service whose endpoints come and go moves its address each time, and
	// its tenant must not spend the quota that the provider's API has for all addresses.
	gapFirst = time.Second
	gapMost  = time.Minute
	// rested is how long after such a call the next takeover is called for at once again.
	rested = 10 * time.Minute

	takenAgain   = "is called later: this Node takes the address again and again"
	changedAgain = "is called later: what it is sent changes again and again"
)

// pace is how fast first calls for an address follow each other, and those of orders that have changed.
type pace struct {
	last time.Time
	gap  time.Duration // from last to the next one
}

// pace is that of an address; zero: it has rested, or was never called for. The caller has the lock.
func (c *Caller) pace(address netip.Addr) pace {
	if p := c.paces[address]; time.Since(p.last) < rested {
		return p
	}
	return pace{}
}

// rest waits until the first call for the address may follow, or something else is to be called than the contact, or nothing can be called.
// It returns the gap to the call before if it had to wait, with which the retries go on: they would begin with the shortest pause at each
// takeover. A takeover long after that call has retries like the first one.
func (w *worker) rest(ctx context.Context, to contact, reason string) time.Duration {
	for waited := time.Duration(0); ; {
		w.caller.mu.Lock()
		p, now := w.caller.pace(w.address), w.wants
		w.caller.mu.Unlock()
		pause := time.Until(p.last.Add(p.gap))
		if pause <= 0 || now.contact() != to || now.problem != "" {
			return waited
		}
		waited = p.gap
		w.later(reason)
		select {
		case <-ctx.Done():
			return waited
		case <-time.After(pause):
		case <-w.again:
		}
	}
}

// changed waits until the other order that there is now may be called for, and returns the pause with which retries go on. Whatever
// writes the status of the Node can change it as often as it likes, so such a call counts as the first one of a takeover. Another
// contact is called at once.
func (w *worker) changed(ctx context.Context, was order, retry time.Duration) time.Duration {
	w.caller.mu.Lock()
	now := w.wants.contact()
	w.caller.mu.Unlock()
	if now != was.contact() {
		return 0
	}
	w.called = false
	return max(retry, w.rest(ctx, now, changedAgain))
}

// paced notes that the first call of a takeover, or of an order that has changed, begins.
func (w *worker) paced() {
	if w.called {
		return
	}
	w.called = true
	c := w.caller
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.swept) > gapMost {
		c.swept = now
		maps.DeleteFunc(c.paces, func(_ netip.Addr, p pace) bool { return now.Sub(p.last) >= rested })
	}
	c.paces[w.address] = pace{last: time.Now(), gap: min(max(gapFirst, 2*c.pace(w.address).gap), gapMost)}
}

// hold is how long an endpoint wants to be left alone, which it says by Retry-After. It outlives the worker whose call had that answer: the
// address may be lost and taken again, and other addresses have the same endpoint.
type hold struct {
	until time.Time
	after time.Duration // from the answer to until
}

// hold keeps what the answer to a call says.
func (c *Caller) hold(want order, a answer) {
	after := min(a.after, want.hook.RepeatAfter.Duration)
	if after <= 0 || a.known > 0 { // a refused generation is repeated at once
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(c.holds, func(_ contact, h hold) bool { return !now.Before(h.until) })
	if until := now.Add(after); until.After(c.holds[want.contact()].until) {
		c.holds[want.contact()] = hold{until: until, after: after}
	}
}

// held is how long a call has to wait for that, up to a tenth longer, so that the addresses of an endpoint do not call all at once; 0: it
// need not wait.
func (c *Caller) held(want order) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.holds[want.contact()]
	left := time.Until(h.until)
	if left <= 0 {
		return 0
	}
	return left + wait.Jitter(h.after, 0.1) - h.after
}
