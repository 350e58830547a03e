package balancer

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// evidence is what an address of a Node is compared with. A kubelet may write any address into its Node, and each one
// that a Service publishes has kube-proxy send packets for it to that Service, on all machines.
type evidence struct {
	services []netip.Prefix
	plane    controlPlane
	alone    bool
	taken    map[netip.Addr]bool
	// networks are those of the configuration; else reports has the networks that each Node's agent reports.
	networks []netip.Prefix
	reports  map[string][]netip.Prefix
	// owners are Nodes by address, and pods the ranges of the Nodes so far, with the lengths of their prefixes.
	owners  map[netip.Addr]string
	pods    map[netip.Prefix]bool
	lengths map[int]bool
}

// plausible returns the Nodes without IP addresses that may be those of others. A machine in the inventory has those
// which are listed there. Without a listed address, an InternalIP counts that is in a network of another Node. Left out
// are the control plane's address, cluster IPs, claimed addresses, and addresses and pods of older Nodes.
func (b *Balancer) plausible(nodes []*corev1.Node, cidrs []*networkingv1.ServiceCIDR, claims []*claim, m *machines,
) []*corev1.Node {
	e := &evidence{
		plane: m.plane, alone: len(nodes) == 1, taken: map[netip.Addr]bool{}, networks: b.NodeNetworks,
		reports: networksOf(m.agents), owners: map[netip.Addr]string{}, pods: map[netip.Prefix]bool{}, lengths: map[int]bool{},
	}
	for _, c := range claims {
		e.taken[c.address] = true
	}
	for _, object := range cidrs {
		e.services = append(e.services, prefixes(object.Spec.CIDRs)...)
	}
	sorted := slices.SortedFunc(slices.Values(nodes), byTrust)
	listed := make([][]corev1.NodeAddress, len(sorted))
	for i, node := range sorted { // what is listed is nobody else's, however old
		if b.Listed != nil {
			listed[i] = b.Listed(node)
		}
		for _, a := range listed[i] {
			if address, err := netip.ParseAddr(a.Address); err == nil {
				e.owners[address.Unmap()] = node.Name
			}
		}
	}
	for i, node := range sorted {
		sorted[i] = e.judged(node, listed[i])
	}
	return sorted
}

// byTrust orders control planes, whose label no kubelet may set, before other Nodes, and then by age.
func byTrust(a, b *corev1.Node) int {
	first, second := hasLabel(a, v1alpha1.ControlPlaneLabel), hasLabel(b, v1alpha1.ControlPlaneLabel)
	switch {
	case first && !second:
		return -1
	case second && !first:
		return 1
	}
	return before(a, b)
}

// judged returns the Node with the addresses that may be its own.
func (e *evidence) judged(node *corev1.Node, listed []corev1.NodeAddress) *corev1.Node {
	var addresses []corev1.NodeAddress
	for i, a := range node.Status.Addresses {
		address, err := netip.ParseAddr(a.Address)
		if err != nil { // a name
			addresses = append(addresses, a)
			continue
		}
		if i >= maxNodeAddresses {
			continue
		}
		address = address.Unmap().WithZone("")
		if len(listed) == 0 && a.Type == corev1.NodeInternalIP && e.near(node.Name, address) &&
			e.free(node, address) && !e.ofPods(address) {
			addresses = append(addresses, a)
		}
		if owner := e.owners[address]; owner == "" { // for the Nodes that follow
			e.owners[address] = node.Name
		}
	}
	for _, a := range listed {
		if address, err := netip.ParseAddr(a.Address); err == nil && e.free(node, address.Unmap()) {
			addresses = append(addresses, a)
		}
	}
	for _, p := range prefixes(node.Spec.PodCIDRs) {
		e.pods[p.Masked()], e.lengths[p.Bits()] = true, true
	}
	judged := *node // the cache's stays as it is
	judged.Status.Addresses = addresses
	return &judged
}

// near says whether the address is in a network where Nodes are: one of the configuration, or one that the agent of
// another Node reports. Where no other agent reports any, there is nothing to compare with.
func (e *evidence) near(name string, address netip.Addr) bool {
	in := func(p netip.Prefix) bool { return p.Contains(address) }
	if len(e.networks) > 0 {
		return slices.ContainsFunc(e.networks, in)
	}
	others := false
	for other, networks := range e.reports {
		if other == name || len(networks) == 0 {
			continue
		}
		if slices.ContainsFunc(networks, in) {
			return true
		}
		others = others || slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Addr().Is6() == address.Is6() })
	}
	return !others
}

// free says whether the address is not that of something else.
func (e *evidence) free(node *corev1.Node, address netip.Addr) bool {
	if owner := e.owners[address]; owner != "" && owner != node.Name || e.taken[address] ||
		!e.plane.isOf(node, address, e.alone) {
		return false
	}
	return !slices.ContainsFunc(e.services, func(p netip.Prefix) bool { return p.Contains(address) })
}

// ofPods says whether the address is among the pods of a Node so far.
func (e *evidence) ofPods(address netip.Addr) bool {
	for length := range e.lengths {
		if p, err := address.Prefix(length); err == nil && e.pods[p] {
			return true
		}
	}
	return false
}

// networksOf are the networks of the interfaces that agents report, by Node. A prefix of one address is no network.
func networksOf(agents []*v1alpha1.NodeAgent) map[string][]netip.Prefix {
	networks := map[string][]netip.Prefix{}
	for _, agent := range agents {
		for _, i := range agent.Status.Interfaces {
			for _, p := range prefixes(i.Addresses) {
				if !p.IsSingleIP() && !p.Addr().IsLinkLocalUnicast() {
					networks[agent.Name] = append(networks[agent.Name], p.Masked())
				}
			}
		}
	}
	return networks
}

// prefixes leaves out what cannot be read.
func prefixes(texts []string) []netip.Prefix {
	var list []netip.Prefix
	for _, text := range texts {
		if p, err := netip.ParsePrefix(text); err == nil {
			list = append(list, p)
		}
	}
	return list
}
