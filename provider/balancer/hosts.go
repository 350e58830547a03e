package balancer

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/nodestatus"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// host is a Node with as much of what is said about it as may count against somebody else. A kubelet may write any address
// and, once, any range of pods into its Node.
type host struct {
	*corev1.Node
	// listed says that the inventory has the machine's addresses.
	listed bool
	// addresses are those of the inventory, or else the first InternalIP of each family: no kubelet has more than these.
	addresses []hostAddress
	// pods are the ranges that have the size which this cluster gives to Nodes, and hold no address of a Node before it.
	pods []netip.Prefix
}

// hostAddress is one of a Node.
type hostAddress struct {
	netip.Addr
	kind corev1.NodeAddressType
}

// proven says that no other kubelet can have made the host's addresses up: they are listed, or a control plane's.
func (h *host) proven() bool { return h.listed || hasLabel(h.Node, v1alpha1.ControlPlaneLabel) }

// hostsOf returns the Nodes in the order in which they are believed. Listed returns what the inventory has of a Node; nil:
// there is no inventory.
func hostsOf(nodes []*corev1.Node, listed func(*corev1.Node) []corev1.NodeAddress) []*host {
	var hosts []*host
	for _, node := range slices.SortedFunc(slices.Values(nodes), byTrust) {
		h := &host{Node: node}
		if listed != nil {
			for _, a := range listed(node) {
				if address, err := netip.ParseAddr(a.Address); err == nil {
					h.addresses = append(h.addresses, hostAddress{address.Unmap().WithZone(""), a.Type})
				}
			}
		}
		if h.listed = len(h.addresses) > 0; !h.listed {
			h.addresses = internal(node)
		}
		hosts = append(hosts, h)
	}
	setPods(hosts)
	return hosts
}

// rankOf is the order in which Nodes are believed, by name.
func rankOf(hosts []*host) map[string]int {
	rank := map[string]int{}
	for i, h := range hosts {
		rank[h.Name] = i
	}
	return rank
}

// internal are the first InternalIPs of each family.
func internal(node *corev1.Node) []hostAddress {
	var list []hostAddress
	all := slices.DeleteFunc(nodestatus.InternalIPs(node), func(ip netip.Addr) bool { return !ip.IsGlobalUnicast() })
	for _, ip := range nodestatus.FirstOfEachFamily(all) {
		list = append(list, hostAddress{ip, corev1.NodeInternalIP})
	}
	return list
}

// unicast reads an address that one machine can have, in the form in which addresses are compared.
func unicast(text string) (netip.Addr, bool) {
	address, err := netip.ParseAddr(text)
	address = address.Unmap().WithZone("")
	return address, err == nil && address.IsGlobalUnicast()
}

// setPods fills in the ranges of pods. The kube-controller-manager gives all Nodes ranges of one size; where the Node that
// is believed first has none, nobody gives any, and a Node that has one has it from its kubelet.
func setPods(hosts []*host) {
	sizes := map[bool]int{} // by whether it is IPv6
	var before []hostAddress
	for i, h := range hosts {
		for _, p := range prefixes(h.Spec.PodCIDRs) {
			if i == 0 {
				sizes[p.Addr().Is6()] = p.Bits()
			}
			holds := func(a hostAddress) bool { return p.Contains(a.Addr) }
			if size, given := sizes[p.Addr().Is6()]; given && size == p.Bits() && !slices.ContainsFunc(before, holds) {
				h.pods = append(h.pods, p.Masked())
			}
		}
		before = append(before, h.addresses...)
	}
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

// before orders Nodes by age.
func before(a, b *corev1.Node) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}
