package allocator

import (
	"fmt"
	"hash/fnv"
	"math/big"
	"net/netip"
	"strings"

	"go4.org/netipx"
	corev1 "k8s.io/api/core/v1"
)

// parseRanges reads CIDRs, addresses and FIRST-LAST. With avoidEnds the first and the last address of IPv4 CIDRs are
// left out, but of those with one or two addresses.
func parseRanges(texts []string, avoidEnds bool) ([]netipx.IPRange, error) {
	var list []netipx.IPRange
	for _, text := range texts {
		r, err := parseRange(text, avoidEnds)
		if err != nil {
			return nil, fmt.Errorf("read range %q: %w", text, err)
		}
		list = append(list, r)
	}
	return list, nil
}

func parseRange(text string, avoidEnds bool) (netipx.IPRange, error) {
	switch {
	case strings.Contains(text, "/"):
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return netipx.IPRange{}, err
		}
		r := netipx.RangeOfPrefix(prefix.Masked())
		if avoidEnds && prefix.Addr().Is4() && prefix.Bits() < 31 {
			r = netipx.IPRangeFrom(r.From().Next(), r.To().Prev())
		}
		return r, nil
	case strings.Contains(text, "-"):
		return netipx.ParseIPRange(text)
	}
	address, err := netip.ParseAddr(text)
	if err == nil && address.Zone() != "" {
		err = fmt.Errorf("zone %q belongs to one machine", address.Zone())
	}
	if err != nil {
		return netipx.IPRange{}, err
	}
	return netipx.IPRangeFrom(address, address), nil
}

// setOf joins ranges, and leaves out others.
func setOf(ranges, without []netipx.IPRange) (*netipx.IPSet, error) {
	var b netipx.IPSetBuilder
	for _, r := range ranges {
		b.AddRange(r)
	}
	for _, r := range without {
		b.RemoveRange(r)
	}
	return b.IPSet()
}

// Size is how many addresses there are from one to the other, both counted.
func Size(r netipx.IPRange) *big.Int {
	n := new(big.Int).Sub(number(r.To()), number(r.From()))
	return n.Add(n, big.NewInt(1))
}

func number(address netip.Addr) *big.Int { return new(big.Int).SetBytes(address.AsSlice()) }

// firstFree walks once around the addresses of a family and returns the first for which free is true. Where it begins
// is for the name to say, so that a Service which is made again gets the same address while no other has it.
func firstFree(ranges []netipx.IPRange, ipv6 bool, name string, free func(netip.Addr) bool) (netip.Addr, bool) {
	var family []netipx.IPRange
	total := new(big.Int)
	for _, r := range ranges {
		if r.From().Is6() == ipv6 {
			family = append(family, r)
			total.Add(total, Size(r))
		}
	}
	if len(family) == 0 {
		return netip.Addr{}, false
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // a hash has no error
	start := new(big.Int).SetUint64(h.Sum64())
	start.Mod(start, total)
	at := 0
	for start.Cmp(Size(family[at])) >= 0 {
		start.Sub(start, Size(family[at]))
		at++
	}
	bytes := make([]byte, family[at].From().BitLen()/8)
	first, _ := netip.AddrFromSlice(start.Add(start, number(family[at].From())).FillBytes(bytes))
	for address := first; ; {
		if free(address) {
			return address, true
		}
		if address == family[at].To() {
			at = (at + 1) % len(family)
			address = family[at].From()
		} else {
			address = address.Next()
		}
		if address == first {
			return netip.Addr{}, false
		}
	}
}

// FamilyName is for messages.
func FamilyName(ipv6 bool) corev1.IPFamily {
	if ipv6 {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}
