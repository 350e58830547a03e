package agent

import (
	"cmp"
	"fmt"
	"net"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/dump"
)

// reportGateways adds the routers of this machine's default routes. What the kernel does not tell is left out, with a line
// in the log.
func reportGateways(status *v1alpha1.NodeAgentStatus) {
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		list, err := gateways(family)
		if err != nil {
			klog.ErrorS(err, "Cannot read the gateways of this Node")
		}
		status.Gateways = append(status.Gateways, list...)
	}
}

// gateways are the routers of the best default route of a family in table main, which may have several.
func gateways(family int) ([]string, error) {
	all, err := dump.Whole(func() ([]netlink.Route, error) {
		return netlink.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_MAIN}, netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	all = slices.DeleteFunc(all, func(r netlink.Route) bool {
		if r.Dst == nil {
			return false
		}
		bits, _ := r.Dst.Mask.Size()
		return bits > 0
	})
	if len(all) == 0 {
		return nil, nil
	}
	best := slices.MinFunc(all, func(a, b netlink.Route) int { return cmp.Compare(a.Priority, b.Priority) })
	hops := []net.IP{best.Gw}
	for _, hop := range best.MultiPath {
		hops = append(hops, hop.Gw)
	}
	var list []string
	for _, hop := range hops {
		if hop.IsGlobalUnicast() {
			list = append(list, hop.String())
		}
	}
	return list, nil
}
