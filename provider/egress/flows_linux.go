package egress

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ccmadm/ccmadm/provider/dump"
)

// endFlows removes entries of connection tracking that would translate the source of a pod's packets as it was before: the pod's address
// has gone to this Node, or from it, or the pod is no Service's any more. The next packet of such a connection makes a new entry, so that the
// connection goes on: the kernel takes up TCP connections in their midst (net.netfilter.nf_conntrack_tcp_loose). An entry that stays on a
// former owner misses what others have seen since, and would make packets invalid when the address comes back.
func (k *Kernel) endFlows(s state) error {
	filter := stale{sources: map[netip.Addr]netip.Addr{}, services: map[netip.Addr]bool{}, gone: k.gone, cluster: s.Cluster}
	for _, p := range s.Pods {
		filter.services[p.Address] = true
		filter.sources[p.IP] = p.source() // none: no packet of the pod leaves here
	}
	if len(filter.sources)+len(filter.gone) == 0 {
		return nil
	}
	for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
		_, err := dump.Whole(func() (uint, error) { return k.handle.ConntrackDeleteFilters(netlink.ConntrackTable, family, filter) })
		if err != nil {
			return fmt.Errorf("remove entries of connection tracking: %w", err)
		}
	}
	k.gone = nil
	return nil
}

// stale matches connections of pods to destinations outside of the cluster whose packets leave with another source than they should, and
// answers to them that were taken for connections, which nothing has translated.
type stale struct {
	sources  map[netip.Addr]netip.Addr // by pod
	services map[netip.Addr]bool       // their addresses
	gone     map[netip.Addr]bool       // pods that were in the table
	cluster  []netip.Prefix
}

// MatchConntrackFlow is netlink's.
func (s stale) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	address := func(ip net.IP) netip.Addr {
		a, _ := netip.AddrFromSlice(ip)
		return a.Unmap()
	}
	pod, destination := address(flow.Forward.SrcIP), address(flow.Reverse.SrcIP)
	direct := destination == address(flow.Forward.DstIP) // else kube-proxy has chosen an endpoint
	source, is := s.sources[pod]
	translated := address(flow.Reverse.DstIP)
	switch {
	case s.services[destination]:
		return direct
	case slices.ContainsFunc(s.cluster, func(p netip.Prefix) bool { return p.Contains(destination) }):
		return is && s.services[translated]
	case s.gone[pod]:
		return direct
	}
	return is && source != translated
}
