package agent

import (
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// What a Node reports as its gateways: those of its best default route of each family, and none where it has no such route.
func TestReportGateways(t *testing.T) {
	ownNamespace(t)
	link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "lan"}, PeerName: "router"}
	must(t, netlink.LinkAdd(link))
	router, err := netlink.LinkByName("router")
	must(t, err)
	must(t, netlink.LinkSetUp(router))
	must(t, netlink.LinkSetUp(link))
	for _, text := range []string{"192.0.2.11/24", "2001:db8::11/64"} {
		address, err := netlink.ParseAddr(text)
		must(t, err)
		must(t, netlink.AddrAdd(link, address))
	}
	index := link.Attrs().Index
	via := func(gateway string, priority int) *netlink.Route {
		return &netlink.Route{LinkIndex: index, Gw: net.ParseIP(gateway), Priority: priority}
	}
	_, pods, err := net.ParseCIDR("10.244.0.0/16")
	must(t, err)
	others := via("192.0.2.99", 0)
	others.Dst = pods
	_, everywhere, err := net.ParseCIDR("0.0.0.0/0")
	must(t, err)
	several := &netlink.Route{Priority: 50, Dst: everywhere, MultiPath: []*netlink.NexthopInfo{
		{LinkIndex: index, Gw: net.ParseIP("192.0.2.2")}, {LinkIndex: index, Gw: net.ParseIP("192.0.2.3")},
	}}
	for _, tt := range []struct {
		name  string
		route *netlink.Route
		want  []string
	}{
		{"none", nil, nil},
		{"one for pods", others, nil},
		{"one by default", via("192.0.2.1", 100), []string{"192.0.2.1"}},
		{"both families", via("2001:db8::1", 100), []string{"192.0.2.1", "2001:db8::1"}},
		{"a worse one", via("192.0.2.4", 200), []string{"192.0.2.1", "2001:db8::1"}},
		{"a better one with two routers", several, []string{"192.0.2.2", "192.0.2.3", "2001:db8::1"}},
	} {
		if tt.route != nil {
			must(t, netlink.RouteAdd(tt.route))
		}
		var status v1alpha1.NodeAgentStatus
		reportGateways(&status)
		if diff := cmp.Diff(tt.want, status.Gateways); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
