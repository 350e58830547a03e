package l2

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
	"github.com/ccmadm/ccmadm/provider/announce/hook"
)

// cloud is an endpoint that notes its calls, and agents that call it.
type cloud struct {
	*agents
	mu    sync.Mutex
	calls []call
	taken map[string]time.Time // when each agent last took the address
	hung  chan struct{}        // keeps the endpoint from answering, if there is one
}

type call struct {
	at         time.Time
	node       string
	generation int64
	gone       time.Time // when its agent gave up, if it did
}

func (c *cloud) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var body hook.Body
	_ = json.NewDecoder(r.Body).Decode(&body)
	c.mu.Lock()
	i := len(c.calls)
	c.calls = append(c.calls, call{at: time.Now(), node: body.Node, generation: body.Generation})
	c.mu.Unlock()
	if c.hung == nil {
		return
	}
	select {
	case <-r.Context().Done():
		c.mu.Lock()
		defer c.mu.Unlock()
		c.calls[i].gone = time.Now()
	case <-c.hung:
	}
}

// by waits for a call of a Node, and returns it.
func (c *cloud) by(node string) call {
	c.t.Helper()
	var found call
	waitFor(c.t, time.Minute, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		i := slices.IndexFunc(c.calls, func(x call) bool { return x.node == node })
		if i >= 0 {
			found = c.calls[i]
		}
		return i >= 0
	})
	return found
}

func newCloud(t *testing.T, hung chan struct{}, addresses ...netip.Addr) *cloud {
	t.Helper()
	var claims []announce.Claim
	for _, address := range addresses {
		claims = append(claims, announce.Claim{Address: address, Pool: "public", Probed: true})
	}
	c := &cloud{agents: newAgents(t, claims...), taken: map[string]time.Time{}, hung: hung}
	server := httptest.NewTLSServer(c)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait(); server.CloseClientConnections(); server.Close() })
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	pool := &v1alpha1.AddressPool{}
	pool.Spec.Hook = &v1alpha1.PoolHook{URL: server.URL, CA: string(ca)}
	c.view.Pools = map[string]*v1alpha1.AddressPool{"public": pool}
	c.hooks = func(name string, o *Options) {
		caller := hook.New(hook.Options{
			Owns:    func(netip.Addr) bool { return true }, // Lost has said so first
			Tokens:  func() map[string][]byte { return nil },
			Changed: func() {}, Failed: func(announce.Claim, string) {}, Observe: func(string, time.Duration) {}, Log: logr.Discard(),
		})
		view := c.view
		view.Node = name
		caller.Set(&view)
		running.Go(func() { _ = caller.Run(ctx) })
		o.Taken, o.Lost = func(address netip.Addr) {
			c.mu.Lock()
			c.taken[name] = time.Now()
			c.mu.Unlock()
			caller.Take(address)
		}, caller.Lose
	}
	return c
}

// The endpoint is called within 100 ms after an address was taken over, whose new owner answers ARP no later than without a hook.
func TestL2_Hook(t *testing.T) {
	address := netip.MustParseAddr("10.8.0.100")
	c := newCloud(t, nil, address)
	c.startAll()
	first, _ := c.owner(address, "", 10*time.Second)
	before := c.by(first)
	o := c.observe(address)
	time.Sleep(300 * time.Millisecond)

	began := time.Now()
	c.port(first, false)
	second, took := c.owner(address, first, 3*time.Second)
	after := c.by(second)
	gap, back := o.gaps(began)
	c.mu.Lock()
	defer c.mu.Unlock()
	late := after.at.Sub(c.taken[second])
	t.Logf("%s has the address after %s; its call arrived %s later; no answer for %s", second, took, late, gap)
	if late > within(100*time.Millisecond) || late < 0 {
		t.Errorf("the call arrived %s after the takeover", late)
	}
	if after.generation <= before.generation {
		t.Errorf("the generation of %s is %d, after %d", second, after.generation, before.generation)
	}
	if gap > within(1500*time.Millisecond) || back {
		t.Errorf("no answer for %s, two owners: %t", gap, back)
	}
	for _, x := range c.calls {
		if x.node == first && x.at.After(c.taken[second]) {
			t.Errorf("the former owner has called %s after the takeover", x.at.Sub(c.taken[second]))
		}
	}
}

// While an endpoint hangs, ARP is answered, addresses move in the usual time, and the call of a former owner ends before another Node owns
// the address.
func TestL2_Hook_Hangs(t *testing.T) {
	address := netip.MustParseAddr("10.8.0.100")
	hung := make(chan struct{})
	c := newCloud(t, hung, address)
	t.Cleanup(func() { close(hung) })
	c.startAll()
	first, _ := c.owner(address, "", 10*time.Second)
	c.by(first)
	o := c.observe(address)
	time.Sleep(2 * time.Second)
	if gap, _ := o.gaps(time.Now().Add(-time.Second)); gap > within(300*time.Millisecond) {
		t.Errorf("no answer for %s while the endpoint hangs", gap)
	}
	began := time.Now()
	c.port(first, false)
	second, took := c.owner(address, first, 3*time.Second)
	c.by(second)
	gap, back := o.gaps(began)
	if gap > within(1500*time.Millisecond) || back {
		t.Errorf("no answer for %s, two owners: %t", gap, back)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range c.calls {
		if x.node != first {
			continue
		}
		early := c.taken[second].Sub(x.gone)
		t.Logf("%s has the address after %s; the former owner's call ended %s before that", second, took, early)
		if x.gone.IsZero() || early < 0 {
			t.Errorf("the former owner's call ended at %s, and %s took the address at %s", x.gone, second, c.taken[second])
		}
	}
}
