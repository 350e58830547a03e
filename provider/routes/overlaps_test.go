package routes

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
)

// It finds what a comparison with every range finds.
func TestOverlaps_Property(t *testing.T) {
	lengths := []int{16, 22, 24, 28, 32, 64}
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 1))
		o := newOverlaps(lengths)
		var known []netip.Prefix
		for range 20 {
			address := netip.AddrFrom4([4]byte{10, 244, byte(random.IntN(8)), byte(random.IntN(256))})
			p := netip.PrefixFrom(address, lengths[random.IntN(5)]).Masked()
			if random.IntN(4) == 0 {
				p = netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 10, 1: 244, 7: byte(random.IntN(8))}), 64)
			}
			want := slices.ContainsFunc(known, p.Overlaps)
			whose, got := o.find(p)
			if got != want || got && !p.Overlaps(netip.MustParsePrefix(whose)) {
				t.Fatalf("seed %d: %s among %v: got %v, %q", seed, p, known, got, whose)
			}
			if !got {
				o.add(p, p.String())
				known = append(known, p)
			}
		}
	}
}
