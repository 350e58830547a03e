package balancer

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// plausible returns the Nodes without addresses that are none of theirs: a kubelet may write any address into its Node,
// and each one that a Service publishes has kube-proxy lead packets for it to that Service, on all machines. So cluster
// IPs are left out, claimed addresses, and those among the pods of an older Node: a range is a kubelet's word, too, and
// must not cost the Nodes of before their addresses.
func plausible(nodes []*corev1.Node, cidrs []*networkingv1.ServiceCIDR, claims []*claim) []*corev1.Node {
	taken := map[netip.Addr]bool{}
	for _, c := range claims {
		taken[c.address] = true
	}
	var services []netip.Prefix
	for _, object := range cidrs {
		services = append(services, prefixes(object.Spec.CIDRs)...)
	}
	pods, lengths := map[netip.Prefix]bool{}, map[int]bool{} // of older Nodes, and how long their prefixes are
	foreign := func(a corev1.NodeAddress) bool {
		address, err := netip.ParseAddr(a.Address)
		if err != nil {
			return false // a name
		}
		address = address.Unmap()
		for length := range lengths {
			if p, err := address.Prefix(length); err == nil && pods[p] {
				return true
			}
		}
		return taken[address] || slices.ContainsFunc(services, func(p netip.Prefix) bool { return p.Contains(address) })
	}
	list := slices.SortedFunc(slices.Values(nodes), func(a, b *corev1.Node) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	for i, node := range list {
		if slices.ContainsFunc(node.Status.Addresses, foreign) {
			list[i] = node.DeepCopy() // the cache's stays as it is
			list[i].Status.Addresses = slices.DeleteFunc(list[i].Status.Addresses, foreign)
		}
		for _, p := range prefixes(node.Spec.PodCIDRs) {
			pods[p.Masked()], lengths[p.Bits()] = true, true
		}
	}
	return list
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
