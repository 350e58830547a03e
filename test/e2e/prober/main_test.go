package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// TestParse: a page counts when a server has answered it well, a connection when somebody has accepted it.
func TestParse(t *testing.T) {
	var status atomic.Int64
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(status.Load()))
	}))
	defer server.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts, and nobody else does
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	for _, test := range []struct {
		name, target string
		status       int64
		wantErr      string
	}{
		{"page", server.URL + "/livez", http.StatusOK, ""},
		{"page of a server that is not well", server.URL + "/livez", http.StatusInternalServerError, "500 Internal"},
		{"page of a server that hangs", "https://" + silent.Addr().String() + "/livez", 0, "Client.Timeout exceeded"},
		{"connection to a server that hangs", silent.Addr().String(), 0, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			status.Store(test.status)
			_, try, err := parse(test.target)
			if err != nil {
				t.Fatal(err)
			}
			err = try(t.Context())
			if (err == nil) != (test.wantErr == "") || err != nil && !strings.Contains(err.Error(), test.wantErr) {
				t.Errorf("got %v, want an error with %q", err, test.wantErr)
			}
		})
	}
}
