package bgp

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// gracefulShutdown is the community of RFC 8326: choose another path if there is one.
const gracefulShutdown = uint32(bgp.COMMUNITY_PLANNED_SHUT)

// Path is a prefix that this Node announces with itself as next hop.
type Path struct {
	// Prefix is an address of a Service with all its bits, or a pod CIDR.
	Prefix netip.Prefix
	// Communities are ASN:VALUE, of 16 bits each, or ASN:VALUE:VALUE, of 32.
	Communities []string
	// LocalPref is for routers of the Node's own ASN. Default: 100.
	LocalPref *int64
}

// send gives the server what is wanted and takes back what is not: nothing is wanted of a Node that drains.
func (s *Speaker) send() error {
	if s.draining {
		return s.withdraw(func(netip.Prefix) bool { return true })
	}
	gone := s.withdraw(func(prefix netip.Prefix) bool {
		_, stays := s.wanted[prefix]
		return !stays
	})
	return errors.Join(gone, s.offer(false))
}

// offer gives the server every wanted path that it does not have in this form.
func (s *Speaker) offer(leaving bool) error {
	var paths []*apiutil.Path
	var prefixes []sentPath
	for _, prefix := range sorted(maps.Keys(s.wanted)) {
		next := sentPath{Path: s.wanted[prefix], nextHop: s.nextHop(prefix.Addr().Is4()), leaving: leaving}
		if before, there := s.sent[prefix]; there && reflect.DeepEqual(before, next) {
			continue
		}
		path, err := next.api()
		if err != nil {
			return fmt.Errorf("announce %s: %w", prefix, err)
		}
		paths, prefixes = append(paths, path), append(prefixes, next)
	}
	if len(paths) == 0 {
		return nil
	}
	if _, err := s.bgp.AddPath(apiutil.AddPathRequest{Paths: paths}); err != nil {
		return fmt.Errorf("announce %d paths: %w", len(paths), err)
	}
	for _, p := range prefixes {
		s.sent[p.Prefix] = p
	}
	return nil
}

func (s *Speaker) withdraw(gone func(netip.Prefix) bool) error {
	var paths []*apiutil.Path
	var prefixes []netip.Prefix
	for _, prefix := range sorted(maps.Keys(s.sent)) {
		if !gone(prefix) {
			continue
		}
		path, err := s.sent[prefix].api()
		if err != nil {
			return fmt.Errorf("withdraw %s: %w", prefix, err)
		}
		paths, prefixes = append(paths, path), append(prefixes, prefix)
	}
	if len(paths) == 0 {
		return nil
	}
	if err := s.bgp.DeletePath(apiutil.DeletePathRequest{Paths: paths}); err != nil {
		return fmt.Errorf("withdraw %d paths: %w", len(paths), err)
	}
	for _, prefix := range prefixes {
		delete(s.sent, prefix)
	}
	return nil
}

// nextHop is unspecified, for which the server puts the Node's address in each session, as long as every session is
// of the family; else it is the Node's first address of the family. An unnumbered session has its own in any case.
func (s *Speaker) nextHop(ipv4 bool) netip.Addr {
	unspecified := netip.IPv6Unspecified()
	if ipv4 {
		unspecified = netip.IPv4Unspecified()
	}
	for _, r := range s.routers {
		if r.Problem != "" || r.Interface != "" {
			continue
		}
		if address, err := netip.ParseAddr(r.Address); err == nil && address.Is4() != ipv4 {
			own, _ := first(s.addresses, ipv4)
			return cmp.Or(own, unspecified)
		}
	}
	return unspecified
}

func (p sentPath) api() (*apiutil.Path, error) {
	family := bgp.RF_IPv6_UC
	if p.Prefix.Addr().Is4() {
		family = bgp.RF_IPv4_UC
	}
	nlri, err := bgp.NewIPAddrPrefix(p.Prefix)
	if err != nil {
		return nil, err
	}
	attributes, err := p.attributes(p.nextHop, p.leaving)
	if err != nil {
		return nil, err
	}
	return &apiutil.Path{Family: family, Nlri: nlri, Attrs: attributes}, nil
}

func (p Path) attributes(nextHop netip.Addr, leaving bool) ([]bgp.PathAttributeInterface, error) {
	if p.Prefix != p.Prefix.Masked() || !p.Prefix.IsValid() {
		return nil, errors.New("not a prefix")
	}
	hop, err := bgp.NewPathAttributeNextHop(nextHop)
	if err != nil {
		return nil, err
	}
	attributes := []bgp.PathAttributeInterface{bgp.NewPathAttributeOrigin(uint8(bgp.BGP_ORIGIN_ATTR_TYPE_IGP)), hop}
	standard, large, err := parseCommunities(p.Communities)
	if err != nil {
		return nil, err
	}
	localPref := p.LocalPref
	if leaving {
		standard = append(standard, gracefulShutdown)
		localPref = new(int64)
	}
	if len(standard) > 0 {
		attributes = append(attributes, bgp.NewPathAttributeCommunities(standard))
	}
	if len(large) > 0 {
		attributes = append(attributes, bgp.NewPathAttributeLargeCommunities(large))
	}
	if localPref != nil {
		attributes = append(attributes, bgp.NewPathAttributeLocalPref(uint32(*localPref)))
	}
	return attributes, nil
}

// parseCommunities reads those of RFC 1997, which have two numbers of 16 bits, and of RFC 8092, with three of 32.
func parseCommunities(texts []string) (standard []uint32, large []*bgp.LargeCommunity, err error) {
	for _, text := range texts {
		parts := strings.Split(text, ":")
		bits := 32
		if len(parts) == 2 {
			bits = 16
		}
		numbers := make([]uint32, len(parts))
		for i, part := range parts {
			n, err := strconv.ParseUint(part, 10, bits)
			if err != nil {
				return nil, nil, fmt.Errorf("community %q: %q is not a number of %d bits", text, part, bits)
			}
			numbers[i] = uint32(n)
		}
		switch len(numbers) {
		case 2:
			standard = append(standard, numbers[0]<<16|numbers[1])
		case 3:
			large = append(large, &bgp.LargeCommunity{ASN: numbers[0], LocalData1: numbers[1], LocalData2: numbers[2]})
		default:
			return nil, nil, fmt.Errorf("community %q: want ASN:VALUE, or ASN:VALUE:VALUE", text)
		}
	}
	return standard, large, nil
}

func sorted(prefixes iter.Seq[netip.Prefix]) []netip.Prefix {
	return slices.SortedFunc(prefixes, netip.Prefix.Compare)
}
