package allocator

import (
	"net/netip"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Routers are the addresses of routers. None is a Service's: kube-proxy would take from every Node what the router is asked
// there, such as names of hosts.
type Routers map[netip.Addr]router

// router is what is known of one.
type router struct {
	whose string // for a message
	peer  bool   // an administrator says so
	// agents are the Nodes whose agents report it as their gateway.
	agents []string
}

// Against reports whether the address is the router's rather than that of the Node. One agent's report does not count against a
// Node that is trusted before the agent's: it could take each Node out of level NodeIP. Rank is the order in which Nodes are
// trusted.
func (r router) Against(node string, rank map[string]int) bool {
	others := 0
	for _, agent := range r.agents {
		if agent == node {
			continue
		}
		if at, known := rank[agent]; known && at < rank[node] {
			return true
		}
		others++
	}
	return r.peer || others > 1
}

// RoutersOf are the BGPPeers, and the gateways that agents report: one of each family of each Node counts.
func RoutersOf(peers []*v1alpha1.BGPPeer, agents []*v1alpha1.NodeAgent) Routers {
	r := Routers{}
	note := func(address netip.Addr, whose string) router {
		known := r[address]
		if known.whose == "" || whose < known.whose { // so that what is said does not change with the order
			known.whose = whose
		}
		return known
	}
	for _, agent := range agents {
		seen := map[bool]bool{} // by whether it is IPv6
		for _, text := range agent.Status.Gateways {
			if address, is := unicast(text); is && !seen[address.Is6()] {
				seen[address.Is6()] = true
				known := note(address, "a gateway of Node/"+agent.Name)
				known.agents = append(known.agents, agent.Name)
				r[address] = known
			}
		}
	}
	for _, peer := range peers {
		if address, is := unicast(peer.Spec.Address); is {
			known := note(address, "BGPPeer/"+peer.Name)
			known.peer = true
			r[address] = known
		}
	}
	return r
}
