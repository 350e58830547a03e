package hook

import (
	"context"
	"maps"
	"net/netip"
	"time"
)

const (
	// gapFirst and gapMost are the shortest and the longest time between the first calls of two takeovers of an address by this Node; each is
	// twice the one before. A Service whose endpoints come and go moves its address each time, and its tenant must not spend the quota that
	// the provider's API has for all addresses.
	gapFirst = time.Second
	gapMost  = time.Minute
	// rested is how long after such a call the next takeover is called for at once again.
	rested = 10 * time.Minute
)

// pace is how fast first calls for an address follow each other.
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

// rest waits until the first call for the address may follow, and returns the gap to the one before it, with which the retries go on: they
// would begin with the shortest pause at each takeover.
func (w *worker) rest(ctx context.Context) time.Duration {
	w.caller.mu.Lock()
	p := w.caller.pace(w.address)
	w.caller.mu.Unlock()
	pause := time.Until(p.last.Add(p.gap))
	if pause <= 0 {
		return p.gap
	}
	w.caller.Log.Info("This Node takes an address again and again; its hook is called later", "address", w.address, "after", pause)
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
	return p.gap
}

// paced notes that the first call of a takeover begins.
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
