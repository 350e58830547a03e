package externalips

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

// maxRanges is how many an AddressPool has at most, by its definition.
const maxRanges = 64

// propose makes AddressPools for the addresses that are in none: one for each namespace, so that no other namespace can ask for
// its addresses, and one for each set of namespaces that share some.
func (p *planner) propose() {
	p.proposed = nil
	users := map[netip.Addr]map[string]bool{}
	for _, c := range p.candidates {
		for _, address := range c.wanted {
			if !c.moves() || allocator.PoolOf(p.pools, address) != nil {
				continue
			}
			if users[address] == nil {
				users[address] = map[string]bool{}
			}
			users[address][c.object.Namespace] = true
		}
	}
	sets := map[string][]netip.Addr{}
	for address, namespaces := range users {
		set := strings.Join(slices.Sorted(maps.Keys(namespaces)), ",")
		sets[set] = append(sets[set], address)
	}
	for _, set := range slices.Sorted(maps.Keys(sets)) {
		namespaces := strings.Split(set, ",")
		name := "external-ips-" + namespaces[0]
		if len(namespaces) > 1 {
			name = "external-ips-shared"
		}
		for ranges := range slices.Chunk(rangesOf(sets[set]), maxRanges) {
			p.proposed = append(p.proposed, newPool(p.free(name), p.cluster.Now, ranges, namespaces))
		}
	}
}

// free is the name, or the first of NAME-2, NAME-3 and so on that no AddressPool has: an existing pool is not overwritten.
func (p *planner) free(name string) string {
	taken := func(name string) bool {
		is := func(pool *v1alpha1.AddressPool) bool { return pool.Name == name }
		return slices.ContainsFunc(p.existing, is) || slices.ContainsFunc(p.proposed, is)
	}
	free := name
	for n := 2; taken(free); n++ {
		free = fmt.Sprintf("%s-%d", name, n)
	}
	return free
}

// rangesOf are the addresses and no others, in the form of spec.ranges.
func rangesOf(addresses []netip.Addr) []string {
	var b netipx.IPSetBuilder
	for _, address := range addresses {
		b.Add(address)
	}
	set, err := b.IPSet()
	if err != nil { // addresses without a zone are no error
		return nil
	}
	var list []string
	for _, r := range set.Ranges() {
		text := r.From().String()
		if r.From() != r.To() {
			text += "-" + r.To().String()
		}
		list = append(list, text)
	}
	return list
}

// all are the existing AddressPools and the proposed ones.
func (p *planner) all() []*allocator.Pool { return p.read(slices.Concat(p.existing, p.proposed)...) }

// locate names the pool of each address, one of all.
func (p *planner) locate(c *candidate, all []*allocator.Pool) {
	for i, address := range c.wanted {
		if pool := allocator.PoolOf(all, address); pool != nil {
			c.Addresses[i].Pool, c.Addresses[i].New = pool.Name, allocator.PoolOf(p.pools, address) == nil
		}
	}
}
