package l2

import (
	"testing"

	"github.com/vishvananda/netlink"
)

// Pods of plug-in ptp have a link each at their machine, with the address of their gateway: they are no interfaces of the machine. One that
// a container has as a machine is, with a network or with a single address of its own.
func TestOfPod(t *testing.T) {
	var addresses []netlink.Addr
	link := func(index, otherNamespace int, prefixes ...string) netlink.Link {
		for _, p := range prefixes {
			parsed, err := netlink.ParseIPNet(p)
			if err != nil {
				t.Fatal(err)
			}
			addresses = append(addresses, netlink.Addr{IPNet: parsed, LinkIndex: index})
		}
		return &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Index: index, NetNsID: otherNamespace}}
	}
	pod1 := link(1, 0, "10.244.0.1/32", "fd00:10:244::1/128", "fe80::1/64")
	pod2 := link(2, 1, "10.244.0.1/32", "fd00:10:244::1/128", "fe80::2/64")
	lan := link(3, 2, "192.0.2.11/24")
	routed := link(4, 3, "198.51.100.7/32")
	pair := link(5, -1, "10.244.0.1/32")
	nic := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: 6}}
	for name, tt := range map[string]struct {
		link netlink.Link
		want bool
	}{
		"a pod's": {pod1, true}, "another pod's": {pod2, true}, "with a network": {lan, false}, "with an address of its own": {routed, false},
		"both ends here": {pair, false}, "a NIC": {nic, false},
	} {
		if got := ofPod(tt.link, addresses); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
