package phases

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

func TestCheckLocal(t *testing.T) {
	err := checkLocal([]netip.Addr{netip.MustParseAddr("203.0.113.7")})
	if err == nil || !strings.Contains(err.Error(), "203.0.113.7 is not an address of this machine") {
		t.Errorf("got %v, want a refusal that names the address", err)
	}
	addrs, err := localAddresses()
	if err != nil {
		t.Fatal(err)
	}
	if err := checkLocal(addrs); err != nil {
		t.Errorf("the machine's own addresses: %v", err)
	}
}

func TestParseAddresses(t *testing.T) {
	for _, tc := range []struct{ list, wantErr string }{
		{"10.0.0.1", ""},
		{"10.0.0.1,fd00::1", ""},
		{"fd00::1,10.0.0.1", ""},
		{"10.0.0.1,10.0.0.2", "one of each family"},
		{"10.0.0.1,fd00::1,10.0.0.2", "one of each family"},
		{"host", "want Auto"},
		{"", "want Auto"},
	} {
		_, err := v1alpha1.ParseAddresses(tc.list)
		if (err == nil) != (tc.wantErr == "") || (err != nil && !strings.Contains(err.Error(), tc.wantErr)) {
			t.Errorf("parse %q: got %v, want %q", tc.list, err, tc.wantErr)
		}
	}
}

func TestSourceAddress_OfALoadBalancerOnThisMachine(t *testing.T) {
	addr, err := sourceAddress(t.Context(), "127.0.0.1:6443")
	if err == nil && addr.IsLoopback() {
		t.Errorf("got %s, which no other machine can reach", addr)
	}
	// A machine without a default route has no other address to offer, and says so.
	if err != nil && !strings.Contains(err.Error(), "find this machine's address") {
		t.Errorf("got %v", err)
	}
}
