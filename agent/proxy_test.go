package agent

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// kube-proxy is asked over one connection, and has its Node drained while it says that it is not well. Where it has gone
// for good, somebody else carries the packets.
func TestProxy(t *testing.T) {
	var code, connections atomic.Int32
	code.Store(http.StatusOK)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(code.Load()))
		_, _ = w.Write([]byte(`{"lastUpdated": "2026-01-01 00:00:00", "currentTime": "2026-01-01 00:00:01"}`))
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	changed := make(chan struct{}, 10)
	p, group := newProxy(time.Hour), errgroup.Group{}
	group.Go(func() error { return p.run(t.Context(), server.URL, func() { changed <- struct{}{} }) })
	await := func(sick bool) {
		t.Helper()
		select {
		case <-changed:
		case <-time.After(time.Minute):
		}
		if p.sick.Load() != sick {
			t.Fatalf("sick is %t", !sick)
		}
	}
	code.Store(http.StatusServiceUnavailable)
	await(true)
	code.Store(http.StatusOK)
	await(false)
	code.Store(http.StatusServiceUnavailable)
	await(true)
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections for four questions", n)
	}
	server.Close()
	await(false)
}

// An agent that starts with its machine waits for kube-proxy's rules: kube-proxy answers before it has written them. Where nothing listens,
// it does not wait for long.
func TestProxy_Boot(t *testing.T) {
	start := time.Unix(1000, 0)
	for _, tt := range []struct {
		name    string
		listens time.Duration // since the agent's start; negative: never
		want    time.Duration
	}{
		{name: "kube-proxy starts first", want: proxyWrites},
		{name: "kube-proxy starts later", listens: 20 * time.Second, want: 20*time.Second + proxyWrites},
		{name: "kube-proxy starts at the end", listens: proxyStarts - time.Second, want: proxyStarts - time.Second + proxyWrites},
		{name: "there is no kube-proxy", listens: -1, want: proxyStarts},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, passed := startup{ready: start.Add(proxyStarts)}, time.Duration(0)
			for !s.over(start.Add(passed), tt.listens >= 0 && passed >= tt.listens) {
				passed += time.Second
			}
			if passed != tt.want {
				t.Errorf("over after %s, want %s", passed, tt.want)
			}
		})
	}
	if since := sinceBoot(); since <= 0 {
		t.Errorf("the machine has booted %s ago", since)
	}
	p := newProxy(bootRecently - time.Second)
	if !p.starting.Load() || newProxy(bootRecently).starting.Load() {
		t.Error("an agent that starts with its machine is not told from one that starts later")
	}
	// Nothing listens, and an agent that has just started does not announce because of it.
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := p.run(ctx, "http://127.0.0.1:1/healthz", func() { t.Error("it has changed") }); err != nil || !p.starting.Load() {
		t.Errorf("starting is %t, %v", p.starting.Load(), err)
	}
}
