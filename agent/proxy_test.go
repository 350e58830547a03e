package agent

import (
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
	p, group := &proxy{}, errgroup.Group{}
	group.Go(func() error { return p.run(t.Context(), server.URL, func() { changed <- struct{}{} }) })
	await := func(sick bool) {
		t.Helper()
		select {
		case <-changed:
		case <-time.After(10 * time.Second):
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
