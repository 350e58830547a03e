package unreachable

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// askTimeout is for one question. A machine that is busy answers all the same: its kernel does.
const askTimeout = 900 * time.Millisecond

// Answer is what came back from a machine.
type Answer int

const (
	// Unknown is no answer to the question: it could not be asked.
	Unknown Answer = iota
	// Present is one that the machine gave, a refusal included.
	Present
	// Silent is none.
	Silent
)

// ask connects to the TCP port of the agents' heartbeats, which go by UDP: nothing listens there, so that the machine's
// kernel refuses, and no program is disturbed or writes a log.
func ask(ctx context.Context, address netip.Addr) Answer {
	dialer := net.Dialer{Timeout: askTimeout, KeepAlive: -1}
	connection, err := dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(address, v1alpha1.HeartbeatPort).String())
	if err == nil {
		_ = connection.Close()
		return Present
	}
	var timeout net.Error
	switch {
	case ctx.Err() != nil:
		return Unknown
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET):
		return Present
	case errors.Is(err, syscall.EHOSTUNREACH), errors.As(err, &timeout) && timeout.Timeout():
		return Silent
	}
	return Unknown
}
