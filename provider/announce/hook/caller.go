// Package hook calls the HTTP endpoints that AddressPools name, when this Node becomes the owner of an address at level L2: where a
// provider filters ARP and routes an address to the machine that its API names, that endpoint moves it there.
//
// Start at [Caller], which package l2 tells what this Node owns. worker.go has when an endpoint is called, pace.go how often at
// most, and call.go what is sent and what of an answer is read.
//
// Reads: an [announce.View], tokens. Writes: requests to the endpoints; nothing in the cluster and nothing in the kernel.
// Running it twice: the second process calls for what it owns, with greater numbers.
// It will not: call what no AddressPool names, follow a redirect, keep back an announcement, or call when an address is given away,
// since the next owner does.
package hook

import (
	"context"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
	"github.com/ccmadm/ccmadm/provider/endpoint"
)

// Options are what a Caller needs to know.
type Options struct {
	// Tokens returns those of Secret [v1alpha1.HookSecretName]; nil before it was read.
	Tokens func() map[string][]byte
	// Owns reports whether this Node owns the address at this moment.
	Owns func(netip.Addr) bool
	// Changed is called when the report has changed. It must not wait.
	Changed func()
	// Failed is called when calls for an address begin to fail. It must not wait.
	Failed func(claim announce.Claim, message string)
	// Observe is told of each call: its result, which is ok, refused or failed, and how long it took.
	Observe func(result string, took time.Duration)
	Log     logr.Logger
}

// maxCalls is how many calls for addresses of one pool are on their way at once.
const maxCalls = 32

// Caller calls hooks for the addresses that this Node owns.
type Caller struct {
	Options

	wake chan struct{}
	send func(context.Context, order) answer

	mu      sync.Mutex
	view    *announce.View
	claims  map[netip.Addr]announce.Claim // of the view
	owned   map[netip.Addr]*ownership
	workers map[netip.Addr]*worker
	calls   map[string]chan struct{} // by pool: one for each call under way
	paces   map[netip.Addr]pace
	swept   time.Time // when paces that are over were last removed
	holds   map[contact]hold
}

var _ announce.Announcer = (*Caller)(nil)

// ownership is an address that this Node owns, from when it took it until it loses it.
type ownership struct {
	// generation is the time at which it took it, in microseconds, which a JSON number holds: the owner before took it earlier.
	generation int64
	failure    failure
}

// failure is why calls fail, or why there is none yet, and since when; none: they do not.
type failure struct {
	message  string
	since    time.Time
	uncalled bool
}

// New makes a Caller.
func New(o Options) *Caller {
	return &Caller{
		Options: o, wake: make(chan struct{}, 1), send: send, owned: map[netip.Addr]*ownership{}, workers: map[netip.Addr]*worker{},
		calls: map[string]chan struct{}{}, paces: map[netip.Addr]pace{}, holds: map[contact]hold{},
	}
}

// Take says that this Node has begun to announce the address. It does not wait.
func (c *Caller) Take(address netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end(address)
	c.owned[address] = &ownership{generation: time.Now().UnixMicro()}
	c.look()
}

// Lose says that this Node no longer owns the address: a call for it ends. It does not wait.
func (c *Caller) Lose(address netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.owned, address)
	c.end(address)
}

// end ends the calls for an address. The caller has the lock.
func (c *Caller) end(address netip.Addr) {
	if w := c.workers[address]; w != nil {
		w.end()
	}
}

// look has Run bring its workers in line.
func (c *Caller) look() {
	select {
	case c.wake <- struct{}{}:
	default: // it will anyway
	}
}

// Run calls until ctx is done.
func (c *Caller) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		c.start(ctx, &running)
		select {
		case <-ctx.Done():
			return nil
		case <-c.wake:
		}
	}
}

// start has one worker for each owned address whose pool has a hook, and ends the others. An address that was lost and taken again waits
// until the former worker has ended: there are never two calls for one address.
func (c *Caller) start(ctx context.Context, running *sync.WaitGroup) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := false
	for address, o := range c.owned {
		want, there := c.order(address)
		w := c.workers[address]
		switch {
		case !there:
			changed = changed || o.failure.message != ""
			o.failure = failure{}
			c.end(address)
		case w == nil:
			c.begin(ctx, running, address, o, want)
		case w.owned == o && !w.wants.same(want):
			if !w.wants.sends(want) {
				w.interrupt() // it may hang, at an endpoint that is no longer the right one
			}
			w.wants = want
			w.poke()
		}
	}
	if changed {
		c.Changed()
	}
}

// begin starts a worker, which asks Run to look again when it has ended. The caller has the lock.
func (c *Caller) begin(ctx context.Context, running *sync.WaitGroup, address netip.Addr, o *ownership, want order) {
	ctx, end := context.WithCancel(ctx)
	w := &worker{caller: c, address: address, owned: o, end: end, again: make(chan struct{}, 1), wants: want, interrupt: func() {}}
	c.workers[address] = w
	running.Go(func() {
		defer end()
		w.run(ctx, want.contact())
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.workers, address)
		c.look()
	})
}

// Set is what [announce.Announcer] says.
func (c *Caller) Set(view *announce.View) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.view, c.claims = view, map[netip.Addr]announce.Claim{}
	for _, claim := range view.Claims {
		c.claims[claim.Address] = claim
	}
	c.look()
}

// Drain is what [announce.Announcer] says: another owner calls, so there is nothing to give away.
func (c *Caller) Drain(context.Context) {}

// Report is what [announce.Announcer] says. It adds to announcements that package l2 has reported why their hooks fail.
func (c *Caller) Report(status *v1alpha1.NodeAgentStatus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range status.Announcements {
		a := &status.Announcements[i]
		if address, err := netip.ParseAddr(a.Address); err == nil && a.Level == v1alpha1.LevelL2 && c.owned[address] != nil {
			a.Hook = c.owned[address].failure.String()
		}
	}
}

// Failing is how many addresses there are whose hook fails, or is called later.
func (c *Caller) Failing() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, o := range c.owned {
		if o.failure.message != "" {
			n++
		}
	}
	return n
}

func (f failure) String() string {
	if f.message == "" {
		return ""
	}
	return f.message + ", since " + f.since.UTC().Format(time.RFC3339)
}

// order is what is to be called for an address, and what it is told.
type order struct {
	hook    v1alpha1.PoolHook
	claim   announce.Claim
	token   string
	problem string // why it cannot be called
	body    Body
}

// same leaves out which Services have the address, and the order of InternalIPs: these alone are no reason for a call.
func (o order) same(other order) bool {
	o.body.Services, other.body.Services = nil, nil
	for _, of := range []*Body{&o.body, &other.body} {
		of.InternalIPs = slices.Sorted(slices.Values(of.InternalIPs))
	}
	return o.hook == other.hook && o.token == other.token && o.problem == other.problem && reflect.DeepEqual(o.body, other.body)
}

// sends is whether the other one sends the same to the same endpoint, however long that may take.
func (o order) sends(other order) bool {
	o.hook.Timeout, o.hook.RepeatAfter = other.hook.Timeout, other.hook.RepeatAfter
	return o.same(other)
}

// contact is what is called, and with which token: one that was changed is called at once.
type contact struct{ url, ca, token string }

func (o order) contact() contact { return contact{o.hook.URL, o.hook.CA, o.token} }

// order returns that for an address as the view has it now; false: its pool has no hook. The caller has the lock.
func (c *Caller) order(address netip.Addr) (order, bool) {
	claim, claimed := c.claims[address]
	if !claimed || c.view.Pools[claim.Pool] == nil || c.view.Pools[claim.Pool].Spec.Hook == nil {
		return order{}, false
	}
	o := order{hook: *c.view.Pools[claim.Pool].Spec.Hook, claim: claim}
	o.hook.Timeout.Duration = endpoint.Bounded(o.hook.Timeout.Duration, defaultTimeout, time.Second, time.Minute)
	o.hook.RepeatAfter.Duration = endpoint.Bounded(o.hook.RepeatAfter.Duration, defaultRepeat, 10*time.Second, 24*time.Hour)
	o.token, o.problem = endpoint.Token(v1alpha1.Namespace+"/"+v1alpha1.HookSecretName, c.Tokens(), o.hook.TokenKey)
	o.body = Body{Address: address.String(), Node: c.view.Node, Pool: claim.Pool, InternalIPs: []string{}, Services: []string{}}
	if node := c.view.Nodes[c.view.Node]; node != nil {
		o.body.ProviderID = node.Spec.ProviderID
		for _, a := range node.Status.Addresses {
			if a.Type == corev1.NodeInternalIP {
				o.body.InternalIPs = append(o.body.InternalIPs, a.Address)
			}
		}
	}
	for _, name := range claim.Services {
		o.body.Services = append(o.body.Services, name.String())
	}
	slices.Sort(o.body.Services)
	o.body.Services = o.body.Services[:min(len(o.body.Services), maxServices)]
	return o, true
}

const (
	defaultTimeout = 10 * time.Second
	defaultRepeat  = 5 * time.Minute
)
