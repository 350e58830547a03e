package hook

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
	"github.com/ccmadm/ccmadm/provider/endpoint"
)

// playedEndpoint stands for all endpoints, in the time of a test.
type playedEndpoint struct {
	mu      sync.Mutex
	calls   []order
	running map[string]int
	twice   bool // two calls for one address at once
	ended   int  // calls that were cancelled
	last    string
	takes   map[string]time.Duration // by pool, or by URL
	answers func(order) answer
}

func (e *playedEndpoint) send(ctx context.Context, o order) answer {
	e.mu.Lock()
	e.calls = append(e.calls, o)
	e.running[o.body.Address]++
	e.last = o.token
	e.twice = e.twice || e.running[o.body.Address] > 1
	takes, answers := max(e.takes[o.body.Pool], e.takes[o.hook.URL]), e.answers
	e.mu.Unlock()
	var a answer
	select {
	case <-ctx.Done():
		time.Sleep(time.Second) // it takes a moment to end
	case <-time.After(takes):
		if answers != nil {
			a = answers(o)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if ctx.Err() != nil {
		e.ended++
	}
	e.running[o.body.Address]--
	return a
}

// seen are the addresses that were called for since the last look, in order.
func (e *playedEndpoint) seen() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []string
	for _, o := range e.calls {
		list = append(list, o.body.Address)
	}
	e.calls = nil
	slices.Sort(list)
	return list
}

func (e *playedEndpoint) lastToken() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last
}

// all are the calls since the last look, and how many were cancelled since the beginning.
func (e *playedEndpoint) all() ([]order, int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.calls), e.ended
}

// now has the endpoint answer so from now on, or take so long for addresses of a pool.
func (e *playedEndpoint) now(change func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change()
}

const first, second = "203.0.113.7", "203.0.113.8"

// runs gives a test an agent in a time of its own.
func runs(t *testing.T, test func(t *testing.T, a *agent, e *playedEndpoint, v *announce.View)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := newAgent()
		e := &playedEndpoint{running: map[string]int{}, takes: map[string]time.Duration{}}
		a.send = e.send
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		v := view("w1", map[string]v1alpha1.PoolHook{"public": {URL: "https://cloud"}, "none": {}}, map[string][]string{"public": {first, second}})
		v.Pools["none"].Spec.Hook = nil
		a.Set(v)
		synctest.Wait()
		test(t, a, e, v)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if e.twice {
			t.Error("there were two calls for one address at once")
		}
	})
}

func wants(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: calls (-want +got):\n%s", what, diff)
	}
}

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

func TestCaller_CallsWhileItOwns(t *testing.T) {
	runs(t, func(t *testing.T, a *agent, e *playedEndpoint, _ *announce.View) {
		wants(t, "nothing is owned", e.seen())
		a.Take(addr(first))
		synctest.Wait()
		wants(t, "at once", e.seen(), first)
		time.Sleep(4 * time.Minute)
		wants(t, "nothing has changed", e.seen())
		time.Sleep(2 * time.Minute)
		wants(t, "repeated", e.seen(), first)
		a.Lose(addr(first))
		time.Sleep(time.Hour)
		wants(t, "not on release, nor later", e.seen())
		a.Take(addr("192.0.2.200"))
		time.Sleep(time.Hour)
		wants(t, "an address without a claim", e.seen())
	})
}

func TestCaller_Retries(t *testing.T) {
	runs(t, func(t *testing.T, a *agent, e *playedEndpoint, v *announce.View) {
		e.now(func() {
			e.answers = func(o order) answer {
				if o.body.Address == first {
					return answer{problem: "answers 503 Service Unavailable"}
				}
				return answer{}
			}
		})
		began := time.Now()
		a.Take(addr(first))
		a.Take(addr(second))
		time.Sleep(time.Minute)
		if n := len(e.seen()); n < 7 || n > 9 {
			t.Errorf("%d calls in the first minute, want one of the other address, and those after 0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5 s", n)
		}
		time.Sleep(10 * time.Minute)
		if n := len(e.seen()); n < 8 || n > 15 {
			t.Errorf("%d calls in ten minutes, want some ten, one a minute, and two of the other address", n)
		}
		want := "answers 503 Service Unavailable, since " + began.UTC().Format(time.RFC3339)
		if got := a.reports(first); got != want {
			t.Errorf("it reports %q, want %q", got, want)
		}
		if got := a.reports(second); got != "" || a.Failing() != 1 {
			t.Errorf("it reports %q of the other address; %d fail", got, a.Failing())
		}
		if diff := cmp.Diff([]string{"answers 503 Service Unavailable"}, a.said()); diff != "" {
			t.Errorf("Events: %s", diff)
		}
		e.now(func() { e.answers = func(order) answer { return answer{} } })
		time.Sleep(2 * time.Minute)
		if got := a.reports(first); got != "" || a.Failing() != 0 {
			t.Errorf("it succeeds, and is reported as %q; %d fail", got, a.Failing())
		}
		e.now(func() {
			e.answers = func(order) answer { return answer{problem: "answers 429 Too Many Requests", after: 3 * time.Minute} }
		})
		next := *v
		next.Nodes = map[string]*corev1.Node{"w1": v.Nodes["w1"].DeepCopy()}
		next.Nodes["w1"].Spec.ProviderID = "cloud://other"
		a.Set(&next)
		time.Sleep(10 * time.Second)
		_ = e.seen()
		time.Sleep(2 * time.Minute)
		wants(t, "the endpoint wants to be left alone", e.seen())
	})
}

// A call ends when the address is lost, and one that is taken again waits for its end.
func TestCaller_EndsAtLoss(t *testing.T) {
	runs(t, func(t *testing.T, a *agent, e *playedEndpoint, _ *announce.View) {
		e.now(func() { e.takes["public"] = time.Hour })
		a.Take(addr(first))
		synctest.Wait()
		calls, _ := e.all()
		one := calls[0].body.Generation
		a.Lose(addr(first))
		time.Sleep(10 * time.Millisecond)
		a.Take(addr(first))
		synctest.Wait()
		if calls, _ = e.all(); len(calls) != 1 {
			t.Errorf("%d calls while the former one ends", len(calls))
		}
		time.Sleep(2 * time.Second)
		if calls, ended := e.all(); len(calls) != 2 || ended != 1 || calls[1].body.Generation <= one {
			t.Errorf("%d calls, %d ended; want the second one with a greater generation: %+v", len(calls), ended, calls)
		}
		a.Lose(addr(first))
		a.do(func() { a.lost = true })
		_ = e.seen()
		a.Take(addr(second))
		time.Sleep(time.Minute)
		wants(t, "the announcer does not know yet that it lost the address", e.seen())
		a.do(func() { a.lost = false })
		time.Sleep(time.Second)
		wants(t, "it has it", e.seen(), second)
	})
}

// What hangs in one pool holds up no other pool, and of its own only what is beyond the limit, until a call has timed out.
func TestCaller_Hangs(t *testing.T) {
	runs(t, func(t *testing.T, a *agent, e *playedEndpoint, v *announce.View) {
		var many []string
		for i := range maxCalls + 1 {
			many = append(many, fmt.Sprintf("198.51.100.%d", i))
		}
		next := *v
		hung := view("w1", map[string]v1alpha1.PoolHook{"hung": {URL: "https://hung"}}, map[string][]string{"hung": many})
		next.Claims = slices.Concat(v.Claims, hung.Claims)
		next.Pools = map[string]*v1alpha1.AddressPool{"public": v.Pools["public"], "hung": hung.Pools["hung"]}
		a.Set(&next)
		e.now(func() { e.takes["hung"] = 10 * time.Second })
		began := time.Now()
		for _, address := range many {
			a.Take(addr(address))
		}
		synctest.Wait()
		if n := len(e.seen()); n != maxCalls {
			t.Errorf("%d calls at once, want %d", n, maxCalls)
		}
		a.Take(addr(first))
		synctest.Wait()
		wants(t, "another pool", e.seen(), first)
		if time.Since(began) != 0 {
			t.Errorf("it waited for %s", time.Since(began))
		}
		time.Sleep(11 * time.Second)
		if n := len(e.seen()); n != 1 {
			t.Errorf("%d calls after the first have ended, want that of the last address", n)
		}
		a.Take(addr(second))
		a.Lose(addr(many[0]))
		_ = a.reports(first)
		if time.Since(began) != 11*time.Second {
			t.Error("Take, Lose and Report have waited")
		}
	})
}

func TestCaller_Changes(t *testing.T) {
	runs(t, func(t *testing.T, a *agent, e *playedEndpoint, v *announce.View) {
		a.Take(addr(first))
		set := func(what string, change func(), want ...string) {
			t.Helper()
			synctest.Wait()
			_ = e.seen()
			next := *v
			next.Pools = map[string]*v1alpha1.AddressPool{"public": v.Pools["public"].DeepCopy()}
			next.Nodes = map[string]*corev1.Node{"w1": v.Nodes["w1"].DeepCopy()}
			next.Claims = slices.Clone(v.Claims)
			v = &next
			change()
			a.Set(v)
			time.Sleep(time.Second)
			wants(t, what, e.seen(), want...)
		}
		hook := func() *v1alpha1.PoolHook { return v.Pools["public"].Spec.Hook }
		set("the same", func() {})
		set("other Services", func() { v.Claims[0].Services = v.Claims[0].Services[:1] })
		set("a URL", func() { hook().URL = "https://other" }, first)
		set("a provider ID", func() { v.Nodes["w1"].Spec.ProviderID = "cloud://9" }, first)
		set("a key that is not there", func() { hook().TokenKey = "cloud" })
		if got := a.reports(first); got != "" {
			t.Errorf("it reports %q before the Secret could be read", got)
		}
		time.Sleep(time.Minute)
		if got := a.reports(first); !strings.HasPrefix(got, `Secret kube-system/ccmadm-hooks has no key "cloud", since `) {
			t.Errorf("it reports %q", got)
		}
		set("a token", func() { a.do(func() { a.tokens = map[string][]byte{"cloud": []byte(planted + "\n")} }) }, first)
		if got := e.lastToken(); got != planted {
			t.Errorf("the token is %q", got)
		}
		set("another one", func() { a.do(func() { a.tokens = map[string][]byte{"cloud": []byte("2")} }) }, first)
		set("two lines", func() { a.do(func() { a.tokens = map[string][]byte{"cloud": []byte("a\r\nX-Admin: b")} }) })
		set("no hook", func() { v.Pools["public"].Spec.Hook = nil })
		time.Sleep(time.Hour)
		wants(t, "no hook for an hour", e.seen())
		set("a hook again", func() { v.Pools["public"].Spec.Hook = &v1alpha1.PoolHook{URL: "https://cloud"} }, first)
	})
}

// However many Services share an address, the body has the first ones by name.
func TestCaller_ManyServices(t *testing.T) {
	runs(t, func(t *testing.T, a *agent, e *playedEndpoint, v *announce.View) {
		next := *v
		next.Claims = slices.Clone(v.Claims)
		next.Claims[0].Services = nil
		for i := range 1000 {
			next.Claims[0].Services = append(next.Claims[0].Services, types.NamespacedName{Namespace: "shop", Name: fmt.Sprintf("s%03d", 999-i)})
		}
		a.Set(&next)
		a.Take(addr(first))
		synctest.Wait()
		calls, _ := e.all()
		if got := calls[0].body.Services; len(got) != 50 || got[0] != "shop/s000" || got[49] != "shop/s049" {
			t.Errorf("it sends %d Services: %q", len(got), got)
		}
	})
}

// Limits hold for objects that are older than the rules of their definition.
func TestBounded(t *testing.T) {
	for _, tt := range []struct{ in, want time.Duration }{
		{0, defaultTimeout}, {time.Millisecond, time.Second}, {time.Hour, time.Minute}, {5 * time.Second, 5 * time.Second}, {-1, time.Second},
	} {
		if got := endpoint.Bounded(metav1.Duration{Duration: tt.in}.Duration, defaultTimeout, time.Second, time.Minute); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.in, got, tt.want)
		}
	}
}
