// Package ipam asks the IPAMs of AddressPools for addresses, and has them released.
//
// Start at [Keeper.Set], which is told what to ask after each pass, and [Keeper.Leases], which has what was answered. call.go has the
// protocol.
//
// Reads: a Secret with tokens. Writes: requests to IPAMs, and nothing in the cluster.
// Running it twice: each request may come again, and the IPAM answers as before.
// It will not: wait in a pass, make two calls for one Service and family at a time or more than 16 for a pool, or forget an address since
// an IPAM cannot be asked.
package ipam

import (
	"context"
	"maps"
	"net/netip"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/endpoint"
)

const (
	// maxCalls is how many calls for one pool are under way at once.
	maxCalls = 16
	// retryFirst and retryMost are the shortest and the longest pause after a call that failed; each is twice the one before.
	retryFirst, retryMost = time.Second, time.Minute
	// troubled is how long after a failure an IPAM is said to fail: one that fails now and then is not written about with each call.
	troubled = time.Minute

	defaultTimeout, defaultRenew = 10 * time.Second, 5 * time.Minute
)

// Settings are what a Keeper works with.
type Settings struct {
	// Tokens reads Secret [v1alpha1.IPAMSecretName]. Without an error, nil data stands for a Secret that does not exist.
	Tokens func(context.Context) (map[string][]byte, error)
	// Changed is called when an answer differs from the one before. It must not wait.
	Changed func()
}

// Order is what is to be asked, and of which IPAM.
type Order struct {
	allocator.LeaseCall
	IPAM v1alpha1.PoolIPAM
	// Cluster tells this cluster from others.
	Cluster string
}

// contact is how an IPAM is reached.
func (o Order) contact() [3]string { return [3]string{o.IPAM.URL, o.IPAM.CA, o.IPAM.TokenKey} }

// Keeper asks IPAMs.
type Keeper struct {
	Settings
	wake   chan struct{}
	tokens tokens

	mu      sync.Mutex
	entries map[allocator.LeaseKey]*entry
	calls   map[string]int        // under way, by pool
	holds   map[string]time.Time  // until when a pool's IPAM wants to be left alone
	trouble map[string]*lastError // by pool
}

// entry is what is asked for one Service and family.
type entry struct {
	order   Order
	version int // of the order
	gone    bool
	running bool
	due     time.Time
	last    time.Time // when the last call began
	denied  netip.Addr
	unfit   time.Time // since when the answer cannot be used
	unsure  time.Time // until when the IPAM may carry out a PUT that was not answered
	retry   time.Duration
	lease   allocator.Lease
}

type lastError struct {
	text string
	at   time.Time
}

// New makes a Keeper. It asks nothing.
func New(s Settings) *Keeper {
	return &Keeper{
		Settings: s, wake: make(chan struct{}, 1), entries: map[allocator.LeaseKey]*entry{}, calls: map[string]int{},
		holds: map[string]time.Time{}, trouble: map[string]*lastError{},
	}
}

// Set replaces what is to be asked. What is no longer in it is forgotten once its call has ended.
func (k *Keeper) Set(orders map[allocator.LeaseKey]Order) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	moved := map[string]bool{} // pools
	for key, e := range k.entries {
		if _, there := orders[key]; there {
			continue
		}
		e.gone = true
		e.version++
		if !e.running && !now.Before(e.unsure) {
			delete(k.entries, key)
		}
	}
	for key, order := range orders {
		order.IPAM.Timeout.Duration = endpoint.Bounded(order.IPAM.Timeout.Duration, defaultTimeout, time.Second, time.Minute)
		order.IPAM.RenewAfter.Duration = endpoint.Bounded(order.IPAM.RenewAfter.Duration, defaultRenew, 10*time.Second, 24*time.Hour)
		e := k.entries[key]
		if e == nil {
			e = &entry{order: order, due: now, lease: allocator.Lease{Releasing: order.Release}}
			k.entries[key] = e
			continue
		}
		if e.order.contact() != order.contact() {
			delete(k.holds, key.Pool) // of the former one
		}
		if e.order.IPAM.URL != order.IPAM.URL {
			moved[key.Pool] = true
		}
		e.replace(order, now)
	}
	for pool := range moved {
		klog.InfoS("The IPAM of an AddressPool has another URL, and is asked for all addresses. The former one keeps its entries", "pool", pool)
	}
	k.look()
}

// replace takes an order that may differ from the one before. Another question is asked soon: tenants can change it as often as they like.
func (e *entry) replace(order Order, now time.Time) {
	before := e.order
	e.order = order
	if before.contact() != order.contact() { // administrators write it, and wait
		e.last, e.retry, e.denied = time.Time{}, 0, netip.Addr{}
	}
	if !order.Unfit {
		e.unfit = time.Time{}
	} else if e.unfit.IsZero() {
		e.unfit = now
	}
	given := e.lease.Address.IsValid() && e.lease.Address == order.Address && !order.Release
	switch {
	case e.gone, before.Release != order.Release, before.contact() != order.contact(),
		!given && (!e.lease.Answers(order.Wanted) || before.From != order.From):
		e.version++
		e.gone, e.due = false, later(now, e.last.Add(max(retryFirst, e.retry)))
		e.lease = allocator.Lease{Wanted: order.Wanted, Releasing: order.Release}
	case order.Unfit && !before.Unfit:
		e.due = now.Add(retryFirst)
	}
}

// Leases are what IPAMs have answered.
func (k *Keeper) Leases() map[allocator.LeaseKey]allocator.Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	leases := map[allocator.LeaseKey]allocator.Lease{}
	for key, e := range k.entries {
		if !e.gone {
			l := e.lease
			l.Denied = e.denied
			leases[key] = l
		}
	}
	return leases
}

// Trouble is why the IPAM of a pool could not be asked within the last minute; empty: it could, or there was no reason to.
func (k *Keeper) Trouble(pool string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if t := k.trouble[pool]; t != nil && time.Since(t.at) < troubled {
		return t.text
	}
	return ""
}

// Run asks until ctx is done.
func (k *Keeper) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		next := k.start(ctx, &running)
		select {
		case <-ctx.Done():
			return
		case <-time.After(next):
		case <-k.wake:
		}
	}
}

func (k *Keeper) look() {
	select {
	case k.wake <- struct{}{}:
	default: // it will anyway
	}
}

// start begins the calls that are due, and returns when the next one is. Renewals come after what Services wait for.
func (k *Keeper) start(ctx context.Context, running *sync.WaitGroup) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	now, next := time.Now(), time.Minute
	maps.DeleteFunc(k.holds, func(_ string, until time.Time) bool { return !now.Before(until) })
	var renewals []allocator.LeaseKey
	for key, e := range k.entries {
		due := later(e.due, k.holds[key.Pool])
		switch {
		case e.running || e.gone || k.calls[key.Pool] >= maxCalls:
		case due.After(now):
			next = min(next, due.Sub(now))
		case e.order.Address.IsValid() && !e.order.Release:
			renewals = append(renewals, key)
		default:
			k.begin(ctx, running, key, e)
		}
	}
	for _, key := range renewals {
		if k.calls[key.Pool] < maxCalls {
			k.begin(ctx, running, key, k.entries[key])
		}
	}
	return next
}

// begin makes one call. An answer that cannot be used is given back after a while, so that the IPAM may give another one. The caller has
// the lock.
func (k *Keeper) begin(ctx context.Context, running *sync.WaitGroup, key allocator.LeaseKey, e *entry) {
	k.calls[key.Pool]++
	e.running, e.last = true, time.Now()
	order, version := e.order, e.version
	if !e.unfit.IsZero() && e.last.Sub(e.unfit) >= order.IPAM.RenewAfter.Duration {
		order.Release, e.unfit, e.lease = true, time.Time{}, allocator.Lease{Wanted: order.Wanted}
	}
	running.Go(func() {
		r := k.call(ctx, order)
		k.mu.Lock()
		k.calls[key.Pool]--
		e.running = false
		changed := ctx.Err() == nil && k.end(key, e, order, r, version)
		k.mu.Unlock()
		if changed {
			k.Changed()
		}
		k.look()
	})
}

// end keeps what became of a call, unless another question has taken its place, and returns whether that is news. The caller has the lock.
func (k *Keeper) end(key allocator.LeaseKey, e *entry, asked Order, r result, version int) bool {
	now := time.Now()
	if after := min(r.after, e.order.IPAM.RenewAfter.Duration); after > 0 && asked.contact() == e.order.contact() {
		k.holds[key.Pool] = later(k.holds[key.Pool], now.Add(wait.Jitter(after, 0.1)))
	}
	if r.unsure {
		e.unsure = now.Add(asked.IPAM.Timeout.Duration)
	}
	if r.failed() {
		k.trouble[key.Pool] = &lastError{r.problem, now}
	}
	switch {
	case e.gone:
		if !now.Before(e.unsure) { // else a release that is wanted next would count too early
			delete(k.entries, key)
		}
		return false
	case e.version != version:
		return false
	case asked.Release && !e.order.Release: // it is asked again
		e.due = now.Add(retryFirst)
		return false
	}
	if r.released && e.last.Before(e.unsure) { // a PUT that comes after this DELETE would store the address again
		e.due = later(now, e.unsure)
		return false
	}
	before := e.lease
	r.apply(&e.lease, e.order)
	if r.refused && asked.Wanted.IsValid() && !asked.Address.IsValid() {
		e.denied = asked.Wanted
	}
	e.due = now.Add(endpoint.Jitter(e.order.IPAM.RenewAfter.Duration))
	if r.problem != "" || e.order.Unfit {
		e.retry = min(max(retryFirst, 2*e.retry), retryMost)
		e.due = now.Add(endpoint.Jitter(e.retry))
	} else {
		e.retry = 0
	}
	if e.lease.Released {
		e.due = now.Add(retryMost) // the next pass takes the order back
	}
	return e.lease != before
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
