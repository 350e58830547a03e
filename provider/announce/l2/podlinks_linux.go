package l2

import (
	"slices"

	"github.com/vishvananda/netlink"
)

// veth is a netlink type.
const veth = "veth"

// ofPod reports whether a link is the machine's end of a pod's interface: it leads to another network namespace, and has nothing but single
// addresses that other links have, too. Plug-in ptp of CNI gives all of them the address of the pods' gateway. They would be an entry of the
// report for each pod, which all agents get again whenever a pod starts or stops. The interface of a machine that is a container itself may
// have single addresses, too: they are its own.
func ofPod(link netlink.Link, addresses []netlink.Addr) bool {
	index := link.Attrs().Index
	own := func(a netlink.Addr) bool {
		ones, bits := a.Mask.Size()
		return ones < bits || !slices.ContainsFunc(addresses, func(b netlink.Addr) bool { return b.LinkIndex != index && b.IP.Equal(a.IP) })
	}
	return link.Type() == veth && link.Attrs().NetNsID >= 0 && !slices.ContainsFunc(addresses, func(a netlink.Addr) bool {
		return a.LinkIndex == index && a.IP.IsGlobalUnicast() && own(a)
	})
}
