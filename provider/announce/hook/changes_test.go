package hook

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
)

// hung has many addresses in a pool whose endpoint answers nothing for a minute, and an agent that owns them all.
func hung(t *testing.T, a *agent, e *playedEndpoint) (hooked func(v1alpha1.PoolHook), addresses int) {
	t.Helper()
	e.now(func() { e.takes["https://hung"] = time.Minute })
	var many []string
	for i := range 3*maxCalls + 1 {
		many = append(many, fmt.Sprintf("198.51.100.%d", i))
	}
	hooked = func(hook v1alpha1.PoolHook) {
		hook.Timeout = metav1.Duration{Duration: time.Minute}
		a.Set(view("w1", map[string]v1alpha1.PoolHook{"hung": hook}, map[string][]string{"hung": many}))
	}
	hooked(v1alpha1.PoolHook{URL: "https://hung", TokenKey: "cloud"})
	for _, address := range many {
		a.Take(addr(address))
	}
	time.Sleep(time.Second)
	return hooked, len(many)
}

// A changed hook takes effect at once, for calls that hang and for those that wait for them, however many there are.
func TestCaller_ChangesWhileItHangs(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(hooked func(v1alpha1.PoolHook), tokens map[string][]byte)
		is     func(order) bool
	}{
		{"the URL", func(hooked func(v1alpha1.PoolHook), _ map[string][]byte) {
			hooked(v1alpha1.PoolHook{URL: "https://cloud", TokenKey: "cloud"})
		}, func(o order) bool { return o.hook.URL == "https://cloud" }},
		{"the CA, and the URL", func(hooked func(v1alpha1.PoolHook), _ map[string][]byte) {
			hooked(v1alpha1.PoolHook{URL: "https://cloud", CA: "other", TokenKey: "cloud"})
		}, func(o order) bool { return o.hook.CA == "other" }},
		{"the token, and the URL", func(hooked func(v1alpha1.PoolHook), tokens map[string][]byte) {
			tokens["cloud"] = []byte("new")
			hooked(v1alpha1.PoolHook{URL: "https://cloud", TokenKey: "cloud"})
		}, func(o order) bool { return o.token == "new" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			runs(t, func(t *testing.T, a *agent, e *playedEndpoint, _ *announce.View) {
				a.do(func() { a.tokens = map[string][]byte{"cloud": []byte("old")} })
				hooked, addresses := hung(t, a, e)
				if n := len(e.seen()); n != maxCalls {
					t.Fatalf("%d calls, want %d that hang", n, maxCalls)
				}
				a.do(func() { // a reader has the former map
					a.tokens = maps.Clone(a.tokens)
					tt.change(hooked, a.tokens)
				})
				time.Sleep(3 * time.Second)
				calls, ended := e.all()
				of := map[string]int{}
				for _, o := range calls {
					if of[o.body.Address]++; !tt.is(o) {
						t.Fatalf("it still calls %s with token %q", o.hook.URL, o.token)
					}
				}
				if len(of) != addresses || len(calls) != addresses || ended != maxCalls {
					t.Errorf("%d calls for %d of %d addresses, %d cancelled; want one each", len(calls), len(of), addresses, ended)
				}
				if n := a.Failing(); n != 0 || len(a.said()) > 0 {
					t.Errorf("calls that were cancelled count as failures: %d, %q", n, a.said())
				}
			})
		})
	}
}

// A call in flight ends when what it sends has changed, and not when only times have.
func TestCaller_ChangesDuringACall(t *testing.T) {
	runs(t, func(t *testing.T, a *agent, e *playedEndpoint, v *announce.View) {
		e.now(func() { e.takes["public"] = 10 * time.Second })
		a.Take(addr(first))
		time.Sleep(time.Second)
		next := *v
		next.Pools = map[string]*v1alpha1.AddressPool{"public": v.Pools["public"].DeepCopy()}
		next.Pools["public"].Spec.Hook.RepeatAfter.Duration = time.Hour
		a.Set(&next)
		time.Sleep(2 * time.Second)
		if calls, ended := e.all(); len(calls) != 1 || ended != 0 {
			t.Errorf("another repeatAfter: %d calls, %d cancelled", len(calls), ended)
		}
		last := next
		last.Nodes = map[string]*corev1.Node{"w1": v.Nodes["w1"].DeepCopy()}
		last.Nodes["w1"].Spec.ProviderID = "cloud://other"
		a.Set(&last)
		time.Sleep(2 * time.Second)
		if calls, ended := e.all(); len(calls) != 2 || ended != 1 || calls[1].body.ProviderID != "cloud://other" {
			t.Errorf("another provider ID: %d calls, %d cancelled", len(calls), ended)
		}
	})
}

// renamed gives an agent the Node with another provider ID and InternalIPs in another order.
func renamed(a *agent, v *announce.View, providerID string, reversed bool) {
	next := *v
	next.Nodes = map[string]*corev1.Node{"w1": v.Nodes["w1"].DeepCopy()}
	next.Nodes["w1"].Spec.ProviderID = providerID
	if reversed {
		slices.Reverse(next.Nodes["w1"].Status.Addresses)
	}
	a.Set(&next)
}

// What changes again and again is called for as an address that comes and goes is, and another order of InternalIPs is no change.
func TestCaller_ChangesAgainAndAgain(t *testing.T) {
	runs(t, func(t *testing.T, a *agent, e *playedEndpoint, v *announce.View) {
		a.Take(addr(first))
		time.Sleep(2 * time.Second)
		_ = e.seen()
		renamed(a, v, "cloud://w1", true)
		time.Sleep(time.Minute)
		wants(t, "another order", e.seen())
		renamed(a, v, "cloud://0", false)
		synctest.Wait()
		wants(t, "the first change", e.seen(), first)
		for i := range 1200 {
			renamed(a, v, fmt.Sprint("cloud://", i), false)
			time.Sleep(time.Second)
		}
		if n := len(e.seen()); n < 18 || n > 26 {
			t.Errorf("%d calls in 20 minutes of 1,200 changes, want one a minute, and five at the beginning", n)
		}
		time.Sleep(gapMost)
		if calls, _ := e.all(); len(calls) != 1 || calls[0].body.ProviderID != "cloud://1199" || a.reports(first) != "" {
			t.Errorf("the changes have ended: %d calls, %+v, it reports %q", len(calls), calls, a.reports(first))
		}
	})
}

// Changes end neither a pause that an endpoint asked for, nor those after calls that fail.
func TestCaller_ChangesWhileItFails(t *testing.T) {
	runs(t, func(t *testing.T, a *agent, e *playedEndpoint, v *announce.View) {
		e.now(func() {
			e.answers = func(order) answer { return answer{problem: "answers 429 Too Many Requests", after: 4 * time.Minute} }
		})
		a.Take(addr(first))
		synctest.Wait()
		_ = e.seen()
		for i := range 23 {
			time.Sleep(10 * time.Second)
			renamed(a, v, fmt.Sprint("cloud://", i), false)
		}
		wants(t, "Retry-After", e.seen())
		e.now(func() { e.answers = func(order) answer { return answer{problem: "answers 503 Service Unavailable"} } })
		time.Sleep(20 * time.Minute)
		_ = e.seen()
		renamed(a, v, "cloud://new", false)
		synctest.Wait()
		wants(t, "a change", e.seen(), first)
		time.Sleep(20 * time.Second)
		wants(t, "the next retry", e.seen())
	})
}

// An endpoint that was changed is called at once, however often, and while another call is held back.
func TestCaller_ChangesOfTheHook(t *testing.T) {
	runs(t, func(t *testing.T, a *agent, e *playedEndpoint, v *announce.View) {
		a.Take(addr(first))
		for i := range 25 { // the last call is held back until second 3
			renamed(a, v, fmt.Sprint("cloud://", i), false)
			time.Sleep(100 * time.Millisecond)
		}
		_ = e.seen()
		for i := range 5 {
			next := *v
			next.Pools = map[string]*v1alpha1.AddressPool{"public": v.Pools["public"].DeepCopy()}
			next.Pools["public"].Spec.Hook.URL = fmt.Sprint("https://", i)
			a.Set(&next)
			synctest.Wait()
			wants(t, "another URL", e.seen(), first)
		}
	})
}
