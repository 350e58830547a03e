//go:build linux

package main

import (
	"net"
	"strings"
	"testing"
)

func TestDial(t *testing.T) {
	alive, dead := listen(t), listen(t)
	_ = dead.Close()
	// Wherever it begins in the list, the one that answers is found.
	for range 20 {
		connection, err := dial(t.Context(), []string{dead.Addr().String(), alive.Addr().String()})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := connection.RemoteAddr().String(), alive.Addr().String(); got != want {
			t.Errorf("connected to %s, want %s", got, want)
		}
		_ = connection.Close()
	}
}

func TestDial_NobodyAnswers(t *testing.T) {
	dead := listen(t)
	_ = dead.Close()
	_, err := dial(t.Context(), []string{dead.Addr().String()})
	if err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got error %v, want a refused connection", err)
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}
