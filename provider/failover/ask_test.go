package failover

import (
	"context"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
)

// What a kubelet writes as its address is an address, or nobody is asked.
func TestAddressOf(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "2001:db8::1": "2001:db8::1", "::ffff:192.0.2.1": "192.0.2.1", "fe80::1%eth0": "invalid IP",
		"example.com": "invalid IP", "": "invalid IP",
	} {
		n := node("n1")
		n.Status.Addresses[1].Address = text
		if got := addressOf(n).String(); got != want {
			t.Errorf("%q: %s is asked, want %s", text, got, want)
		}
	}
}

// A machine on which nothing listens answers, too.
func TestAsk(t *testing.T) {
	if got := ask(t.Context(), netip.MustParseAddr("127.0.0.1")); got != Present {
		t.Errorf("this machine: %d, want %d", got, Present)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := ask(ctx, netip.MustParseAddr("127.0.0.1")); got != Unknown {
		t.Errorf("this process ends: %d, want %d", got, Unknown)
	}
	if of := own(); !of[netip.MustParseAddr("127.0.0.1")] || of[netip.MustParseAddr("192.0.2.1")] {
		t.Error("this machine's address is not told from another one")
	}
	for errno, want := range map[syscall.Errno]Answer{
		syscall.ECONNREFUSED: Present, syscall.ECONNRESET: Present, syscall.EHOSTUNREACH: Silent, syscall.ENETUNREACH: Silent,
		syscall.ETIMEDOUT: Silent, syscall.EACCES: Unknown, syscall.EMFILE: Unknown,
	} {
		if got := meaning(&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", errno)}); got != want {
			t.Errorf("%v: %d, want %d", errno, got, want)
		}
	}
}
