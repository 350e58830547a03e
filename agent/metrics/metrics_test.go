package metrics

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A program that is not ready is healthy all the same, and ends when it is told to.
func TestServer(t *testing.T) {
	var notReady error
	number := 7
	Register("ccmadm_test", "number", "A number.", func() int { return number })
	s := Server{Address: freeAddress(t), Ready: func() error { return notReady }, Paths: map[string]http.HandlerFunc{
		"/more": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "more") },
	}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	await(t, s.Address)
	for _, tt := range []struct {
		path     string
		notReady error
		code     int
		text     string
	}{
		{"/healthz", nil, http.StatusOK, "ok\n"},
		{"/readyz", nil, http.StatusOK, "ok\n"},
		{"/readyz", errors.New("no carrier"), http.StatusServiceUnavailable, "no carrier\n"},
		{"/healthz", errors.New("no carrier"), http.StatusOK, "ok\n"},
		{"/more", nil, http.StatusOK, "more"},
		{"/metrics", nil, http.StatusOK, "ccmadm_test_number 7\n"},
		{"/other", nil, http.StatusNotFound, ""},
	} {
		notReady = tt.notReady
		response, err := http.Get("http://" + s.Address + tt.path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != tt.code || !strings.Contains(string(text), tt.text) {
			t.Errorf("%s, ready %v: %d %q %v, want %d %q", tt.path, tt.notReady, response.StatusCode, text, err, tt.code, tt.text)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("told to end: %v", err)
	}
}

// Without an address nothing is served, and one that is taken is an error that names the flag.
func TestServer_Address(t *testing.T) {
	if err := (Server{}).Serve(t.Context()); err != nil {
		t.Error(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	err = Server{Address: l.Addr().String()}.Serve(t.Context())
	if err == nil || !strings.HasPrefix(err.Error(), "listen at --metrics-address: ") {
		t.Errorf("an address that is taken: %v", err)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	return l.Addr().String()
}

func await(t *testing.T, address string) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
			return
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("nothing listens at %s: %v", address, err)
		}
	}
}
