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
	note := func(address netip.Addr, whose string) {
		if r[address] == "" || whose < r[address] { // so that what is said does not change with the order
			r[address] = whose
		}
	}
	for _, agent := range agents {
		seen := map[bool]bool{} // by whether it is IPv6
		for _, text := range agent.Status.Gateways {
			if address, is := unicast(text); is && !seen[address.Is6()] {
				seen[address.Is6()] = true
				note(address, "a gateway of Node/"+agent.Name)
			}
		}
	}
	for _, peer := range peers {
		if address, is := unicast(peer.Spec.Address); is {
			note(address, "BGPPeer/"+peer.Name)
		}
	}
	return r
}
