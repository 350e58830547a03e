package manifeststest

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

// An address refuses connections, and no other program gets it, until somebody listens there.
func TestBound(t *testing.T) {
	address, listen := Bound(t)
	if _, err := net.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("before: got %v, want that it is refused", err)
	}
	if l, err := net.Listen("tcp", address); err == nil {
		_ = l.Close()
		t.Error("another program may listen there")
	}
	listener := listen()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if in, err := listener.Accept(); err != nil {
		t.Error(err)
	} else {
		_ = in.Close()
	}
}
