package machine

import (
	"net/netip"
	"strings"
	"testing"
)

func TestCheckLocal(t *testing.T) {
	err := New().CheckLocal([]netip.Addr{netip.MustParseAddr("203.0.113.7")})
	if err == nil || !strings.Contains(err.Error(), "203.0.113.7 is not an address of this machine") {
		t.Errorf("got %v, want a refusal that names the address", err)
	}
	addrs, err := New().addresses()
	if err != nil {
		t.Fatal(err)
	}
	if err := New().CheckLocal(addrs); err != nil {
		t.Errorf("the machine's own addresses: %v", err)
	}
}

func TestSourceAddress_OfALoadBalancerOnThisMachine(t *testing.T) {
	addr, err := New().SourceAddress(t.Context(), "127.0.0.1:6443")
	if err == nil && addr.IsLoopback() {
		t.Errorf("got %s, which no other machine can reach", addr)
	}
	// A machine without a default route has no other address to offer, and says so.
	if err != nil && !strings.Contains(err.Error(), "find this machine's address") {
		t.Errorf("got %v", err)
	}
}
