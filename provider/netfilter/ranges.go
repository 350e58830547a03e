package netfilter

import (
	"net/netip"
	"slices"
)

// Disjoint are the ranges without those that another one contains, sorted.
func Disjoint(ranges []netip.Prefix) []netip.Prefix {
	sorted := slices.SortedFunc(slices.Values(ranges), netip.Prefix.Compare)
	var kept []netip.Prefix
	for _, p := range sorted {
		if n := len(kept); n == 0 || !kept[n-1].Contains(p.Addr()) {
			kept = append(kept, p)
		}
	}
	return kept
}

// Last is the last address of a range.
func Last(p netip.Prefix) netip.Addr {
	address := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(address)*8; i++ {
		address[i/8] |= 0x80 >> (i % 8)
	}
	last, _ := netip.AddrFromSlice(address)
	return last
}
