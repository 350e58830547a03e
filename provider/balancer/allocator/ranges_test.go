package allocator

import (
	"fmt"
	"net/netip"
	"testing"
)

// Ranges are used up to the last address, each once.
func TestFirstFree(t *testing.T) {
	ranges, err := parseRanges([]string{"192.0.2.0/30", "198.51.100.7", "2001:db8::/126", "255.255.255.255"}, true)
	if err != nil {
		t.Fatal(err)
	}
	set, err := setOf(ranges, nil)
	if err != nil {
		t.Fatal(err)
	}
	used := map[netip.Addr]bool{}
	free := func(a netip.Addr) bool { return !used[a] }
	for _, ipv6 := range []bool{false, true} {
		for {
			address, ok := firstFree(set.Ranges(), ipv6, fmt.Sprint(len(used)), free)
			if !ok {
				break
			}
			if used[address] || address.Is6() != ipv6 || !set.Contains(address) {
				t.Fatalf("got %s", address)
			}
			used[address] = true
		}
	}
	if got := len(used); got != 2+1+1+4 {
		t.Errorf("got %d addresses", got)
	}
}
