package egress

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ccmadm/ccmadm/api/nodestatus"
	"github.com/ccmadm/ccmadm/provider/dump"
)

// surroundings are what a machine knows of addresses by itself.
type surroundings struct {
	// networks are those that it reaches directly, and pods the destinations to which it has routes within the cluster: by another Node; or by
	// an interface that is no uplink and no network card, as network add-ons have them. The gateway of a default route, which a kubelet may
	// report as its own, is no such Node unless it is a control plane. A destination with another route of its own is outside of the cluster.
	networks, pods []netip.Prefix
	// own are its addresses, nodes those that Nodes report as InternalIP, and machines the first one of each family of a Node: a kubelet may
	// report a pod's address beside its own.
	own, nodes, machines map[netip.Addr]bool
	// direct are the destinations of its routes. True: pods of this machine are there, and no others.
	direct map[netip.Prefix]bool
}

// surroundings reads them.
func (k *Kernel) surroundings(in Inputs) (*surroundings, error) {
	found, err := k.routes()
	if err != nil {
		return nil, err
	}
	all, err := dump.Whole(k.handle.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	uplinks, podLinks, routers := uplinks(in, found, all), podLinks(all), routers(found)
	s, controlPlanes := newSurroundings(in), in.controlPlanes()
	byNode := func(g netip.Addr) bool { return s.nodes[g] && (!routers[g] || controlPlanes[g]) }
	var outside []netip.Prefix
	for _, r := range found {
		prefix, ok := prefixOf(r.Dst)
		if ok && r.Table == unix.RT_TABLE_LOCAL && r.Type == unix.RTN_LOCAL && prefix.IsSingleIP() {
			s.own[prefix.Addr()] = true
		}
		if !ok || r.Table != unix.RT_TABLE_MAIN || prefix.Bits() < shortest(prefix) {
			continue
		}
		links, gateways := hopsOf(r)
		isUplink := func(link int) bool { return uplinks[link] }
		here := r.Type == unix.RTN_UNICAST && len(gateways) == 0 &&
			!slices.ContainsFunc(links, func(link int) bool { return isUplink(link) || !podLinks[link] })
		before, known := s.direct[prefix]
		s.direct[prefix] = here && (before || !known)
		switch {
		case r.Type != unix.RTN_UNICAST, slices.ContainsFunc(gateways, byNode),
			!slices.ContainsFunc(links, isUplink):
			s.pods = append(s.pods, prefix)
			continue
		case len(gateways) == 0:
			s.networks = append(s.networks, prefix)
		}
		outside = append(outside, prefix)
	}
	// A route that others are within is a summary, such as those of private ranges that lead nowhere.
	s.pods = slices.DeleteFunc(s.pods, func(p netip.Prefix) bool {
		return slices.ContainsFunc(outside, func(o netip.Prefix) bool { return p.Bits() < o.Bits() && p.Contains(o.Addr()) })
	})
	return s, nil
}

// newSurroundings has nothing of the kernel yet.
func newSurroundings(in Inputs) *surroundings {
	s := &surroundings{
		own: map[netip.Addr]bool{}, nodes: map[netip.Addr]bool{}, machines: map[netip.Addr]bool{}, direct: map[netip.Prefix]bool{},
	}
	for _, n := range in.Nodes {
		all := nodestatus.InternalIPs(n)
		for _, ip := range all {
			s.nodes[ip] = true
		}
		for _, ip := range nodestatus.FirstOfEachFamily(all) {
			s.machines[ip] = true
		}
	}
	return s
}

// contradicts reports whether the machine knows that the address is none of such a pod's, whatever a kubelet says: it is its own, or that of a pod
// of its own, which its Node would say, or a Node's in its network. Otherwise packets of it or of that pod would be dropped or translated.
func (s *surroundings) contradicts(p Pod) bool {
	switch {
	case s.own[p.IP]:
		return true
	case s.here(p.IP):
		return !p.Here
	}
	return s.machines[p.IP] && slices.ContainsFunc(s.networks, func(n netip.Prefix) bool { return n.Contains(p.IP) })
}

// here reports whether the longest route to an address leads to pods of this machine.
func (s *surroundings) here(ip netip.Addr) bool {
	for bits := ip.BitLen(); bits > 0; bits-- {
		if here, known := s.direct[netip.PrefixFrom(ip, bits).Masked()]; known {
			return here
		}
	}
	return false
}

// podLinks are the interfaces behind which there is nothing but pods of this machine: its ends of their interfaces, and bridges with no other
// port. Behind a tunnel, or a bridge with a port that leads elsewhere, there are also pods of other Nodes.
func podLinks(links []netlink.Link) map[int]bool {
	ofPod := func(link netlink.Link) bool { return link.Type() == "veth" && link.Attrs().NetNsID >= 0 }
	are := map[int]bool{}
	for _, link := range links {
		are[link.Attrs().Index] = ofPod(link) || link.Type() == "bridge"
	}
	for _, link := range links {
		if master := link.Attrs().MasterIndex; master != 0 && !ofPod(link) {
			are[master] = false
		}
	}
	return are
}

// hopsOf are the interfaces and the gateways of a route.
func hopsOf(r netlink.Route) (links []int, gateways []netip.Addr) {
	gateway := func(ip net.IP) {
		if g, ok := netip.AddrFromSlice(ip); ok {
			gateways = append(gateways, g.Unmap())
		}
	}
	via := func(d netlink.Destination) {
		if v, is := d.(*netlink.Via); is && v != nil {
			gateway(v.Addr)
		}
	}
	if len(r.MultiPath) == 0 {
		gateway(r.Gw)
		via(r.Via)
		return []int{r.LinkIndex}, gateways
	}
	for _, hop := range r.MultiPath {
		links = append(links, hop.LinkIndex)
		gateway(hop.Gw)
		via(hop.Via)
	}
	return links, gateways
}

// routers are the gateways of default routes, and of those of VPNs that are as short.
func routers(found []netlink.Route) map[netip.Addr]bool {
	routers := map[netip.Addr]bool{}
	for _, r := range found {
		if prefix, ok := prefixOf(r.Dst); ok && r.Table == unix.RT_TABLE_MAIN && prefix.Bits() < shortest(prefix) {
			_, gateways := hopsOf(r)
			for _, g := range gateways {
				routers[g] = true
			}
		}
	}
	return routers
}

// shortest is the length of a prefix below which it is no range of pods: some VPNs have two routes for all destinations.
func shortest(p netip.Prefix) int { return p.Addr().BitLen() / 4 }

// uplinks are the interfaces by which packets leave the cluster: those with a default route, with the network of an address of a Service,
// and network cards.
func uplinks(in Inputs, found []netlink.Route, links []netlink.Link) map[int]bool {
	uplinks := map[int]bool{}
	for _, r := range found {
		if prefix, ok := prefixOf(r.Dst); ok && r.Table == unix.RT_TABLE_MAIN && prefix.Bits() == 0 {
			uplinks[r.LinkIndex] = true
			for _, hop := range r.MultiPath {
				uplinks[hop.LinkIndex] = true
			}
		}
	}
	for _, link := range links {
		switch name := link.Attrs().Name; link.Type() {
		case "device", "bond", "team", "vlan", "macvlan":
			uplinks[link.Attrs().Index] = name != "lo"
		default:
			if slices.ContainsFunc(in.Addresses, func(a Address) bool { return a.Interface == name }) {
				uplinks[link.Attrs().Index] = true
			}
		}
	}
	return uplinks
}
