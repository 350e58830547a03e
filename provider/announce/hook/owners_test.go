package hook

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// start runs an agent of a Node whose pools have these hooks, and one address each.
func start(t *testing.T, node string, hooks map[string]v1alpha1.PoolHook, addresses map[string][]string) *agent {
	t.Helper()
	a := newAgent()
	a.tokens = map[string][]byte{"cloud": []byte(planted)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	a.Set(view(node, hooks, addresses))
	return a
}

// until waits for something.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

func TestOwners(t *testing.T) {
	for _, tt := range []struct {
		name  string
		ahead time.Duration // the clock of the former owner
	}{{name: "clocks agree"}, {name: "the former owner's clock is ahead", ahead: time.Hour}} {
		t.Run(tt.name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			t.Run("all", func(t *testing.T) { moves(t, tt.ahead) })
		})
	}
}

// moves lets an address go from one owner to the next.
func moves(t *testing.T, ahead time.Duration) {
	c := &cloud{routes: map[string]Body{}}
	hooks := map[string]v1alpha1.PoolHook{"public": serve(t, c)}
	addresses := map[string][]string{"public": {first}}
	one, two := start(t, "w1", hooks, addresses), start(t, "w2", hooks, addresses)
	one.Take(addr(first))
	one.Caller.mu.Lock()
	one.owned[addr(first)].generation += ahead.Microseconds()
	one.Caller.mu.Unlock()
	until(t, "w1 has the route", func() bool { return c.route(first).Node == "w1" })
	old := c.route(first)
	one.Lose(addr(first))
	began := time.Now()
	two.Take(addr(first))
	until(t, "w2 has the route", func() bool { return c.route(first).Node == "w2" })
	if got := c.route(first); got.Generation <= old.Generation || got.ProviderID != "cloud://w2" {
		t.Errorf("got %+v after %+v", got, old)
	}
	t.Logf("w2 had the route after %s", time.Since(began))
	if ahead > 0 { // one call was refused, and repeated with a greater number
		two.do(func() {
			if two.counts["refused"] != 1 || len(two.events) != 0 {
				t.Errorf("got %v, Events %q", two.counts, two.events)
			}
		})
	}
	late := calling(hooks["public"])
	late.body = old // it was under way for long
	if a := send(t.Context(), late); a.known != c.route(first).Generation || c.route(first).Node != "w2" {
		t.Errorf("the former owner's late call: %+v; route %+v", a, c.route(first))
	}
}

// An agent that begins again calls again, with a greater number.
func TestOwners_Restart(t *testing.T) {
	c := &cloud{routes: map[string]Body{}}
	hooks := map[string]v1alpha1.PoolHook{"public": serve(t, c)}
	var last int64
	for range 2 {
		a := start(t, "w1", hooks, map[string][]string{"public": {first}})
		a.Take(addr(first))
		until(t, "it has called", func() bool { return c.route(first).Generation > last })
		last = c.route(first).Generation
	}
}

// A loss ends a call that the endpoint has not answered.
func TestOwners_LossEndsACall(t *testing.T) {
	reached, ended := make(chan struct{}), make(chan struct{})
	hook := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { close(reached); hang(r); close(ended) }))
	a := start(t, "w1", map[string]v1alpha1.PoolHook{"public": hook}, map[string][]string{"public": {first}})
	a.Take(addr(first))
	<-reached
	began := time.Now()
	a.Lose(addr(first))
	<-ended
	if took := time.Since(began); took > defaultTimeout/2 { // else it would end by its timeout
		t.Errorf("it ended after %s", took)
	}
}

// An endpoint that hangs holds up no other pool, and no other address of its own.
func TestOwners_OneHangs(t *testing.T) {
	c := &cloud{routes: map[string]Body{}}
	hang := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { hang(r) }))
	hooks := map[string]v1alpha1.PoolHook{"hangs": hang, "public": serve(t, c)}
	a := start(t, "w1", hooks, map[string][]string{"hangs": {first}, "public": {second}})
	a.Take(addr(first))
	time.Sleep(20 * time.Millisecond)
	began := time.Now()
	a.Take(addr(second))
	until(t, "the other has its route", func() bool { return c.route(second).Node == "w1" })
	if took := time.Since(began); took > defaultTimeout/2 { // when the one that hangs has failed
		t.Errorf("it took %s", took)
	}
}

// Whatever an endpoint repeats of a request, the token is in no log, report, Event or error.
func TestSecretsPlanted(t *testing.T) {
	echo := func(w http.ResponseWriter, r *http.Request) {
		conn, _, _ := w.(http.Hijacker).Hijack()
		defer func() { _ = conn.Close() }()
		for _, text := range []string{"HTTP/1.1 " + planted, "\r\n" + planted} {
			_, _ = fmt.Fprint(conn, text, "\r\n", r.Header.Get("Authorization"), "\r\n\r\n", planted)
		}
	}
	for name, handler := range map[string]http.HandlerFunc{
		"no status": echo,
		"a status": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", planted)
			w.Header().Set("Location", "https://"+planted+".example/")
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"generation": "`+planted+`"}`)
		},
		"a location": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://"+planted+".example/")
			w.WriteHeader(http.StatusFound)
		},
	} {
		t.Run(name, func(t *testing.T) {
			hook := serve(t, handler)
			hook.TokenKey = "cloud"
			a := start(t, "w1", map[string]v1alpha1.PoolHook{"public": hook}, map[string][]string{"public": {first}})
			a.Take(addr(first))
			until(t, "it is reported", func() bool { return a.reports(first) != "" })
			a.log.mu.Lock()
			defer a.log.mu.Unlock()
			all := a.log.text + a.reports(first) + strings.Join(a.said(), "\n")
			if strings.Contains(all, planted) || !strings.Contains(a.log.text, "fails") {
				t.Errorf("the token, or no reason, is in:\n%s", all)
			}
		})
	}
}
