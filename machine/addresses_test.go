package machine

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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

// Addresses of lo come last: one that moves between machines is not taken for the machine's.
func TestUsableAddresses_LoopbackLast(t *testing.T) {
	on := map[string][]string{"lo": {"127.0.0.1/8", "198.18.0.20/32"}, "eth0": {"fe80::1/64", "198.18.0.11/24"}}
	got, err := usableAddresses([]net.Interface{{Name: "lo", Flags: net.FlagLoopback}, {Name: "eth0"}}, func(i *net.Interface) ([]net.Addr, error) {
		var addrs []net.Addr
		for _, text := range on[i.Name] {
			ip, n, err := net.ParseCIDR(text)
			if err != nil {
				return nil, err
			}
			addrs = append(addrs, &net.IPNet{IP: ip, Mask: n.Mask})
		}
		return addrs, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := [][]netip.Addr{{netip.MustParseAddr("198.18.0.11")}, {netip.MustParseAddr("198.18.0.20")}}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
}

// The address by which this machine reaches its own load balancer is one that no other machine can reach.
func TestSourceAddress_OfALoadBalancerOnThisMachine(t *testing.T) {
	own := netip.MustParseAddr("198.18.0.11")
	m := New()
	m.DefaultAddress = func() (netip.Addr, error) { return own, nil }
	m.Interfaces = func() ([][]netip.Addr, error) { return [][]netip.Addr{{own}}, nil }
	if addr, err := m.SourceAddress(t.Context(), "127.0.0.1:6443"); err != nil || addr != own {
		t.Errorf("got %s and %v, want %s", addr, err, own)
	}
	m.DefaultAddress = func() (netip.Addr, error) { return netip.Addr{}, errors.New("no default route") }
	addr, err := m.SourceAddress(t.Context(), "127.0.0.1:6443")
	if err == nil || !strings.Contains(err.Error(), "find this machine's address: no default route") {
		t.Errorf("without a default route: got %s and %v", addr, err)
	}
}
