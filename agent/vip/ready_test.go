package vip

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// Routers would send a share of all clients to an API server that has only begun, and forbids everybody everything. One
// that never says whether it is ready is taken for it after a while.
func TestBGPHolder_APIServerStarts(t *testing.T) {
	var code atomic.Int32
	code.Store(http.StatusForbidden)
	health, _ := healthOf(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(code.Load())) })
	h := &bgpHolder{health: health}
	if err := h.health.ask(t.Context()); err != nil {
		t.Errorf("one that forbids lives: %v", err)
	}
	if err := h.hold(t.Context(), true); !errors.Is(err, errStarting) || h.healthy {
		t.Errorf("it forbids: %v, want %v", err, errStarting)
	}
	if code.Store(http.StatusOK); !h.health.ready(t.Context()) {
		t.Error("it is ready, and that is not seen")
	}
	code.Store(http.StatusUnauthorized)
	if h.since = time.Now().Add(-knownAfter); h.starting(t.Context()) {
		t.Error("one that never says so is not taken for ready")
	}
}

// The time for which an API server answers without being ready does not go on when it dies meanwhile: one that crashes again and again as
// it starts would be taken for ready after a while.
func TestBGPHolder_APIServerDiesWhileItStarts(t *testing.T) {
	var errorsLeft atomic.Int32
	health, _ := healthOf(t, func(w http.ResponseWriter, _ *http.Request) {
		if errorsLeft.Add(-1) >= 0 {
			w.WriteHeader(http.StatusInternalServerError)
		} else {
			w.WriteHeader(http.StatusForbidden)
		}
	})
	h := &bgpHolder{health: health}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	answered := 0
	health.watch(ctx, func(healthy bool) error {
		if !healthy {
			h.since = time.Time{} // as hold does, which needs a speaker for the rest
			return nil
		}
		if answered++; answered > 1 {
			if !h.starting(ctx) {
				t.Error("it is taken for ready, by the time of the one before it")
			}
			cancel()
			return nil
		}
		err := h.hold(ctx, true)
		h.since = time.Now().Add(-knownAfter)
		errorsLeft.Store(healthFailures)
		return err
	})
}
