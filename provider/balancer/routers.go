package balancer

import (
	"net/netip"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// routers says whose the address of a router is, for a message. It is no Service's: kube-proxy would take from every Node
// what the router is asked there, such as names of hosts.
type routers map[netip.Addr]string

// routersOf are the BGPPeers, and the gateways that agents report: one of each family of each Node counts.
func routersOf(peers []*v1alpha1.BGPPeer, agents []*v1alpha1.NodeAgent) routers {
	r := routers{}
	note := func(text, whose string) (netip.Addr, bool) {
		address, err := netip.ParseAddr(text)
		if err != nil || !address.Unmap().IsGlobalUnicast() {
			return netip.Addr{}, false
		}
		address = address.Unmap().WithZone("")
		if r[address] == "" || whose < r[address] { // so that what is said does not change with the order
			r[address] = whose
		}
		return address, true
	}
	for _, agent := range agents {
		seen := map[bool]bool{}
		for _, text := range agent.Status.Gateways {
			address, err := netip.ParseAddr(text)
			if err != nil || seen[address.Unmap().Is6()] {
				continue
			}
			if address, is := note(text, "a gateway of Node/"+agent.Name); is {
				seen[address.Is6()] = true
			}
		}
	}
	for _, peer := range peers {
		note(peer.Spec.Address, "BGPPeer/"+peer.Name)
	}
	return r
}
