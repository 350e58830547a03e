package main

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// Routers would send a share of all clients to an API server that has only begun, and forbids everybody everything. One
// that never says whether it is ready is taken for it after a while.
func TestBGPHolder_APIServerStarts(t *testing.T) {
	var code atomic.Int32
	code.Store(http.StatusForbidden)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(code.Load()))
	}))
	certificate, ca := apiServerCertificate(t)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	defer server.Close()
	u, err := url.Parse(server.URL)
	must(t, err)
	port, err := strconv.Atoi(u.Port())
	must(t, err)
	caFile := filepath.Join(t.TempDir(), "ca.crt")
	must(t, os.WriteFile(caFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca}), 0o600))
	h := &bgpHolder{}
	h.health, err = newHealth(caFile, port)
	must(t, err)
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
