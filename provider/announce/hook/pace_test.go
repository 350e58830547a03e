package hook

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
)

// flap lets the first address come and go for a time.
func flap(a *agent, lasts time.Duration) {
	for began := time.Now(); time.Since(began) < lasts; time.Sleep(100 * time.Millisecond) {
		a.Take(addr(first))
		time.Sleep(400 * time.Millisecond)
		a.Lose(addr(first))
	}
}

// An address that a Node takes again and again is called for after 1, 2, 4 ... 60 seconds, and at once when that has ended for a time.
func TestCaller_Flaps(t *testing.T) {
	runs(t, func(t *testing.T, a *agent, e *playedEndpoint, _ *announce.View) {
		flap(a, 100*time.Millisecond)
		wants(t, "the first time", e.seen(), first)
		time.Sleep(3 * time.Second)
		a.Take(addr(first))
		synctest.Wait()
		wants(t, "again, after more than the gap", e.seen(), first)
		a.Lose(addr(first))
		flap(a, 20*time.Minute)
		if n := len(e.seen()); n < 18 || n > 26 {
			t.Errorf("%d calls in 20 minutes of 2,400 takeovers, want one a minute, and five at the beginning", n)
		}
		a.Take(addr(second))
		synctest.Wait()
		wants(t, "another address", e.seen(), second)
		a.Take(addr(first))
		time.Sleep(gapMost)
		wants(t, "the flapping has ended", e.seen(), first)
		a.Lose(addr(first))
		time.Sleep(rested)
		_ = e.seen()
		a.Take(addr(first))
		synctest.Wait()
		wants(t, "after a rest", e.seen(), first)
	})
}

// Retries do not begin from the shortest pause at each takeover, but after one that did not have to wait: takeovers that are minutes apart
// are no flapping, and what fails may do so for a moment.
func TestCaller_FlapsAndFails(t *testing.T) {
	runs(t, func(t *testing.T, a *agent, e *playedEndpoint, _ *announce.View) {
		e.now(func() { e.answers = func(order) answer { return answer{problem: "answers 503 Service Unavailable"} } })
		flap(a, 10*time.Minute)
		_ = e.seen()
		for range 40 {
			a.Take(addr(first))
			time.Sleep(45 * time.Second)
			a.Lose(addr(first))
		}
		if n := len(e.seen()); n < 15 || n > 45 {
			t.Errorf("%d calls in half an hour of an endpoint that fails, want one a minute", n)
		}
		e.now(func() { e.answers = nil })
		for range 6 {
			time.Sleep(2 * time.Minute)
			a.Take(addr(first))
			synctest.Wait()
			a.Lose(addr(first))
		}
		time.Sleep(2 * time.Minute)
		_ = e.seen()
		e.now(func() {
			e.answers = func(order) answer {
				e.now(func() { e.answers = nil })
				return answer{problem: "answers 503 Service Unavailable"}
			}
		})
		a.Take(addr(first))
		time.Sleep(time.Second)
		wants(t, "a failure for a moment", e.seen(), first, first)
	})
}

// What is known of addresses that this Node has not taken for long is forgotten.
func TestCaller_ForgetsPaces(t *testing.T) {
	runs(t, func(t *testing.T, a *agent, _ *playedEndpoint, _ *announce.View) {
		var many []string
		for i := range 200 {
			many = append(many, fmt.Sprintf("198.51.100.%d", i))
		}
		a.Set(view("w1", map[string]v1alpha1.PoolHook{"many": {URL: "https://cloud"}}, map[string][]string{"many": many}))
		for _, address := range many[1:] {
			a.Take(addr(address))
			synctest.Wait()
			a.Lose(addr(address))
		}
		time.Sleep(rested)
		a.Take(addr(many[0]))
		synctest.Wait()
		a.Caller.mu.Lock()
		defer a.Caller.mu.Unlock()
		if n := len(a.paces); n != 1 {
			t.Errorf("%d addresses are remembered, want the one that is owned", n)
		}
	})
}

// Calls after Retry-After come no sooner than that, and not all at once.
func TestCaller_RetryAfterIsSpread(t *testing.T) {
	runs(t, func(t *testing.T, a *agent, e *playedEndpoint, _ *announce.View) {
		e.now(func() {
			e.answers = func(order) answer { return answer{problem: "answers 503 Service Unavailable", after: 2 * time.Minute} }
		})
		e.now(func() { e.takes["public"] = 10 * time.Millisecond }) // neither knows yet what the other one was answered
		a.Take(addr(first))
		a.Take(addr(second))
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		wants(t, "at once", e.seen(), first, second)
		time.Sleep(2*time.Minute + time.Millisecond)
		wants(t, "exactly after that time", e.seen())
		e.now(func() { e.answers = nil })
		time.Sleep(12 * time.Second)
		wants(t, "a tenth later", e.seen(), first, second)
	})
}

// Retry-After outlives the ownership of the address that was answered, and holds for all addresses of the endpoint.
func TestCaller_RetryAfterIsKept(t *testing.T) {
	runs(t, func(t *testing.T, a *agent, e *playedEndpoint, v *announce.View) {
		next := *v
		next.Pools = map[string]*v1alpha1.AddressPool{"public": v.Pools["public"].DeepCopy()}
		next.Pools["public"].Spec.Hook.RepeatAfter.Duration = 15 * time.Minute
		a.Set(&next)
		e.now(func() {
			e.answers = func(order) answer { return answer{problem: "answers 429 Too Many Requests", after: 10 * time.Minute} }
		})
		a.Take(addr(first))
		synctest.Wait()
		wants(t, "at once", e.seen(), first)
		e.now(func() { e.answers = nil })
		a.Take(addr(second))
		for range 19 {
			time.Sleep(30 * time.Second)
			a.Lose(addr(first))
			a.Take(addr(first))
		}
		time.Sleep(30 * time.Second)
		wants(t, "in ten minutes", e.seen())
		time.Sleep(time.Minute)
		wants(t, "a tenth later", e.seen(), first, second)
	})
}

// An endpoint that was changed has not said Retry-After.
func TestCaller_RetryAfterOfAnotherURL(t *testing.T) {
	runs(t, func(t *testing.T, a *agent, e *playedEndpoint, v *announce.View) {
		e.now(func() {
			e.answers = func(order) answer { return answer{problem: "answers 429 Too Many Requests", after: 5 * time.Minute} }
		})
		a.Take(addr(first))
		synctest.Wait()
		_ = e.seen()
		next := *v
		next.Pools = map[string]*v1alpha1.AddressPool{"public": v.Pools["public"].DeepCopy()}
		next.Pools["public"].Spec.Hook.URL = "https://other"
		a.Set(&next)
		synctest.Wait()
		wants(t, "the other one", e.seen(), first)
	})
}

// An address whose first call is held back is reported, without an Event, until that call.
func TestCaller_ReportsLater(t *testing.T) {
	runs(t, func(t *testing.T, a *agent, e *playedEndpoint, _ *announce.View) {
		reports := func(what, want string) {
			t.Helper()
			synctest.Wait()
			failing := 0
			if want != "" {
				failing = 1
			}
			if got := a.reports(first); !strings.HasPrefix(got, want) || (got == "") != (want == "") || a.Failing() != failing {
				t.Errorf("%s: it reports %q, %d fail; want %q", what, got, a.Failing(), want)
			}
		}
		flap(a, 5*time.Second)
		e.now(func() { e.answers = func(order) answer { return answer{problem: "answers 503 Service Unavailable"} } })
		a.Take(addr(first))
		reports("held back", "is called later: this Node takes the address again and again, since ")
		if said := a.said(); len(said) > 0 {
			t.Errorf("Events: %q", said)
		}
		time.Sleep(gapMost)
		reports("called", "answers 503 Service Unavailable, since ")
		if said := a.said(); len(said) != 1 {
			t.Errorf("Events: %q", said)
		}
		a.Lose(addr(first))
		reports("lost", "")
		time.Sleep(rested)
		e.now(func() { e.answers = func(order) answer { return answer{problem: "answers 429", after: time.Minute} } })
		a.Take(addr(first))
		time.Sleep(time.Second)
		a.Lose(addr(first))
		time.Sleep(10 * time.Second)
		e.now(func() { e.answers = nil })
		a.Take(addr(first))
		reports("Retry-After", "is called later: an answer had Retry-After, since ")
		time.Sleep(2 * time.Minute)
		reports("called again", "")
	})
}
