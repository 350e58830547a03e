package allocator

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"go4.org/netipx"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// ErrNoPrefix is why a pool does not complete its host parts.
var ErrNoPrefix = errors.New("its prefix is not known; condition Prefix of the pool says why")

// PrefixOf is the prefix of an AddressPool by its status, which only the cloud-controller-manager writes; invalid: none of the length in
// its spec is known.
func PrefixOf(object *v1alpha1.AddressPool) netip.Prefix {
	spec, status := object.Spec.DynamicPrefix, object.Status.DynamicPrefix
	if spec == nil || status == nil {
		return netip.Prefix{}
	}
	prefix, err := netip.ParsePrefix(status.Prefix)
	if err != nil || !prefix.Addr().Is6() || prefix.Bits() != int(spec.Length) {
		return netip.Prefix{}
	}
	return prefix.Masked()
}

// complete reads the host parts of the pool, and those of them with its prefix that are not excluded; none, where that is not known.
func (p *Pool) complete(without []netipx.IPRange) (*netipx.IPSet, error) {
	spec := p.Spec.DynamicPrefix
	if spec == nil {
		return &netipx.IPSet{}, nil
	}
	hosts, err := parseRanges(spec.Hosts, false)
	if err != nil {
		return nil, err
	}
	zeros := netip.PrefixFrom(netip.IPv6Unspecified(), int(spec.Length))
	for _, r := range hosts {
		if !zeros.Contains(r.From()) || !zeros.Contains(r.To()) {
			return nil, fmt.Errorf("%s is no range of host parts: the first %d bits are not zero", r, spec.Length)
		}
	}
	if p.hosts, err = setOf(hosts, nil); err != nil {
		return nil, err
	}
	if p.prefix = PrefixOf(p.AddressPool); !p.prefix.IsValid() {
		return &netipx.IPSet{}, nil
	}
	for i, r := range hosts {
		hosts[i] = netipx.IPRangeFrom(join(p.prefix, r.From()), join(p.prefix, r.To()))
	}
	anycast := p.prefix.Addr() // of all routers on the link, by RFC 4291
	return setOf(hosts, append(without, netipx.IPRangeFrom(anycast, anycast)))
}

// addCompleted adds the addresses under its prefix to a pool, unless they are in another one or cluster IPs. Then it is as if the prefix
// were not known: what Nodes report must not stop what an administrator wrote, neither here nor there.
func (p *Pool) addCompleted(pools []*Pool, cidrs []*networkingv1.ServiceCIDR) error {
	overlap := ofCluster(p.completed, cidrs)
	if i := slices.IndexFunc(pools, func(other *Pool) bool { return other != p && p.completed.Overlaps(other.Set) }); i >= 0 {
		overlap = fmt.Errorf("addresses are also those of AddressPool/%s", pools[i].Name)
	}
	if overlap != nil {
		p.overlap = fmt.Errorf("with prefix %s, %w", p.prefix, overlap)
		p.prefix = netip.Prefix{}
		return nil
	}
	var b netipx.IPSetBuilder
	b.AddSet(p.Set)
	b.AddSet(p.completed)
	var err error
	p.Set, err = b.IPSet()
	return err
}

// LacksPrefix is why the pool has no addresses for its host parts; nil: it has them, or no host parts.
func (p *Pool) LacksPrefix() error {
	switch {
	case p.Spec.DynamicPrefix == nil || p.prefix.IsValid():
		return nil
	case p.overlap != nil:
		return p.overlap
	}
	return ErrNoPrefix
}

// under is the address of the pool with the same host part.
func (p *Pool) under(address netip.Addr) (netip.Addr, bool) {
	if !p.prefix.IsValid() || !address.Is6() {
		return netip.Addr{}, false
	}
	host := hostPart(address, p.prefix.Bits())
	next := join(p.prefix, host)
	return next, p.hosts.Contains(host) && p.Set.Contains(next)
}

// hasHost reports whether the address has a host part of the pool, under whatever prefix.
func (p *Pool) hasHost(address netip.Addr) bool {
	return p.hosts != nil && address.Is6() && p.hosts.Contains(hostPart(address, int(p.Spec.DynamicPrefix.Length)))
}

// hostPart has zeros in place of the prefix of that length.
func hostPart(address netip.Addr, length int) netip.Addr {
	bits, network := address.As16(), netip.PrefixFrom(address, length).Masked().Addr().As16()
	for i := range bits {
		bits[i] &^= network[i]
	}
	return netip.AddrFrom16(bits)
}

// join puts a prefix before a host part.
func join(prefix netip.Prefix, host netip.Addr) netip.Addr {
	bits, network := host.As16(), prefix.Addr().As16()
	for i := range bits {
		bits[i] |= network[i]
	}
	return netip.AddrFrom16(bits)
}
