package evaluation

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/controlplane"
)

// evidence is what an address of a Node is compared with. A kubelet may write any address into its Node, and each one
// that a Service publishes has kube-proxy send packets for it to that Service, on all machines.
type evidence struct {
	services []netip.Prefix
	plane    controlplane.Addresses
	routers  allocator.Routers
	alone    bool
	claimed  map[netip.Addr]bool
	// networks are those of the configuration; else reports has the networks that each Node's agent reports, and former those that other
	// agents have reported last, however long ago.
	networks        []netip.Prefix
	reports, former map[string][]netip.Prefix
	// own are the addresses that each Node's agent reports.
	own map[string][]netip.Addr
	// rank is the order in which Nodes are trusted.
	rank map[string]int
	// owners are Nodes by address, and pods the ranges of the Nodes so far, with the lengths of their prefixes.
	owners  map[netip.Addr]*allocator.Host
	pods    map[netip.Prefix]bool
	lengths map[int]bool
}

// Plausible fills in the Nodes without IP addresses that may be those of others. A machine in the inventory has those
// which are listed there. Without a listed address, an InternalIP counts that is in a network of another Node. Left out
// are the control plane's address, routers, cluster IPs, claimed addresses, and addresses and pods of Nodes before it.
// Of an address that two Nodes name, the ports count on which either says that it listens.
func (m *Machines) Plausible(
	hosts []*allocator.Host, cidrs []*networkingv1.ServiceCIDR, claims []*allocator.Claim, networks []netip.Prefix,
) {
	e := &evidence{
		plane: m.Plane, routers: m.Routers, alone: len(hosts) == 1, claimed: map[netip.Addr]bool{}, networks: networks,
		reports: networksOf(m.agents, hosts), former: networksOf(m.older(), hosts),
		owners: map[netip.Addr]*allocator.Host{}, pods: map[netip.Prefix]bool{}, lengths: map[int]bool{},
		own: ownOf(m.agents), rank: allocator.RankOf(hosts),
	}
	for _, c := range claims {
		e.claimed[c.Address] = true
		delete(m.Addresses, c.Address) // whatever a kubelet says
	}
	for _, object := range cidrs {
		e.services = append(e.services, allocator.Prefixes(object.Spec.CIDRs)...)
	}
	for _, h := range hosts { // what is listed belongs to no other, however old
		for _, a := range h.Addresses {
			if h.Listed {
				e.owners[a.Addr] = h
			}
		}
	}
	m.nodes = nil
	for _, h := range hosts {
		m.nodes = append(m.nodes, e.evaluate(h))
	}
	for _, h := range hosts {
		for _, a := range h.Addresses {
			if owner := e.owners[a.Addr]; owner != h && !owner.Proven() {
				m.hears(owner.Name, m.listening[h.Name])
			}
		}
	}
}

// evaluate returns the Node with the addresses that may be its own.
func (e *evidence) evaluate(h *allocator.Host) *corev1.Node {
	var addresses []corev1.NodeAddress
	for _, a := range h.Addresses {
		if e.free(h, a.Addr) && (h.Listed || e.near(h.Name, a.Addr) && !e.ofPods(a.Addr)) {
			addresses = append(addresses, corev1.NodeAddress{Type: a.Kind, Address: a.String()})
		}
		if e.owners[a.Addr] == nil { // for the Nodes that follow
			e.owners[a.Addr] = h
		}
	}
	for _, p := range h.Pods {
		e.pods[p], e.lengths[p.Bits()] = true, true
	}
	evaluated := *h.Node // the cache's stays as it is
	evaluated.Status.Addresses = addresses
	return &evaluated
}

// near reports whether the address is in a network where Nodes are: one of the configuration, or one that the agent of
// another Node reports. Then the Node's own agent has to report the address, too: a kubelet's certificate alone cannot make it
// that of another machine. Where no other agent reports any network, and its own no address, there is nothing to compare with.
// What an agent reported before its machine was switched off counts for a Node, and never against it: a neighbour that is off takes
// no address from those beside it, and a network that is gone takes none from Nodes that have moved.
func (e *evidence) near(name string, address netip.Addr) bool {
	in := func(p netip.Prefix) bool { return p.Contains(address) }
	if len(e.networks) > 0 {
		return slices.ContainsFunc(e.networks, in)
	}
	same := func(own netip.Addr) bool { return own.Is6() == address.Is6() }
	if own := e.own[name]; slices.ContainsFunc(own, same) && !slices.Contains(own, address) {
		return false
	}
	family := func(p netip.Prefix) bool { return p.Addr().Is6() == address.Is6() }
	return anyOther(name, e.reports, in) || anyOther(name, e.former, in) || !anyOther(name, e.reports, family)
}

// anyOther reports whether a Node other than the named one has such a network.
func anyOther(name string, networks map[string][]netip.Prefix, such func(netip.Prefix) bool) bool {
	for other, list := range networks {
		if other != name && slices.ContainsFunc(list, such) {
			return true
		}
	}
	return false
}

// older are the reports of agents that were not heard lately.
func (m *Machines) older() []*v1alpha1.NodeAgent {
	if len(m.Reported) == len(m.agents) {
		return nil
	}
	lately := map[string]bool{}
	for _, agent := range m.agents {
		lately[agent.Name] = true
	}
	return slices.DeleteFunc(slices.Clone(m.Reported), func(agent *v1alpha1.NodeAgent) bool { return lately[agent.Name] })
}

// free reports whether the address is not that of something else.
func (e *evidence) free(h *allocator.Host, address netip.Addr) bool {
	if owner := e.owners[address]; owner != nil && owner != h || e.claimed[address] ||
		!e.plane.IsOf(h.Node, address, e.alone) || e.routers[address].Against(h.Name, e.rank) && !h.Proven() {
		return false
	}
	return !slices.ContainsFunc(e.services, func(p netip.Prefix) bool { return p.Contains(address) })
}

// ofPods reports whether the address is among the pods of a Node so far.
func (e *evidence) ofPods(address netip.Addr) bool {
	for length := range e.lengths {
		if p, err := address.Prefix(length); err == nil && e.pods[p] {
			return true
		}
	}
	return false
}

// ownOf are the addresses of interfaces that agents report, by Node.
func ownOf(agents []*v1alpha1.NodeAgent) map[string][]netip.Addr {
	own := map[string][]netip.Addr{}
	for _, agent := range agents {
		for _, i := range agent.Status.Interfaces {
			for _, p := range allocator.Prefixes(i.Addresses) {
				own[agent.Name] = append(own[agent.Name], p.Addr())
			}
		}
	}
	return own
}

// networksOf are the networks of the interfaces that agents report, by Node. A prefix of one address is no network, and that
// of a Node's own pods is none where Nodes are.
func networksOf(agents []*v1alpha1.NodeAgent, hosts []*allocator.Host) map[string][]netip.Prefix {
	if len(agents) == 0 {
		return nil
	}
	pods := map[string][]netip.Prefix{}
	for _, h := range hosts {
		pods[h.Name] = allocator.Prefixes(h.Spec.PodCIDRs)
	}
	networks := map[string][]netip.Prefix{}
	for _, agent := range agents {
		for _, i := range agent.Status.Interfaces {
			for _, p := range allocator.Prefixes(i.Addresses) {
				ofPods := slices.ContainsFunc(pods[agent.Name], func(r netip.Prefix) bool { return r.Contains(p.Addr()) })
				if !p.IsSingleIP() && !p.Addr().IsLinkLocalUnicast() && !ofPods {
					networks[agent.Name] = append(networks[agent.Name], p.Masked())
				}
			}
		}
	}
	return networks
}
