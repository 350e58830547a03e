package l2

import (
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ofPod reports whether a link is the machine's end of a pod's interface: it leads to another network namespace, has single addresses
// alone, and no default route leads over it. Plug-in ptp of CNI gives all of them the address of the pods' gateway. They would be an entry
// of the report for each pod, which all agents get again whenever a pod starts or stops. The interface of a machine that is a container
// itself looks the same but for the default route.
func ofPod(link netlink.Link, addresses []string, defaults func() map[int]bool) bool {
	network := func(cidr string) bool {
		parsed, err := netlink.ParseIPNet(cidr)
		if err != nil {
			return true
		}
		ones, bits := parsed.Mask.Size()
		return ones < bits
	}
	a := link.Attrs()
	return link.Type() == veth && a.NetNsID >= 0 && !slices.ContainsFunc(addresses, network) && !defaults()[a.Index]
}

// defaultLinks are the indexes of links with a default route, or of all where the kernel does not tell: else a machine would lose its
// interface.
func defaultLinks(links []netlink.Link) map[int]bool {
	found := map[int]bool{}
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: unix.RT_TABLE_MAIN}, netlink.RT_FILTER_TABLE)
	if err != nil {
		for _, link := range links {
			found[link.Attrs().Index] = true
		}
	}
	for _, route := range routes {
		if route.Dst != nil {
			if ones, _ := route.Dst.Mask.Size(); ones > 0 {
				continue
			}
		}
		found[route.LinkIndex] = true
		for _, hop := range route.MultiPath {
			found[hop.LinkIndex] = true
		}
	}
	return found
}

// veth is a netlink type.
const veth = "veth"
