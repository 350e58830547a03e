package allocator

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/nodestatus"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Host is a Node with as much of what is said about it as may count against another program. A kubelet may write any address
// and, once, any range of pods into its Node.
type Host struct {
	*corev1.Node
	// Listed says that the inventory has the machine's addresses.
	Listed bool
	// Addresses are those of the inventory, or else the first InternalIP of each family: no kubelet has more than these.
	Addresses []HostAddress
	// Pods are the ranges that have the size which this cluster gives to Nodes, and hold no address of a Node before it.
	Pods []netip.Prefix
}

// HostAddress is one of a Node.
type HostAddress struct {
	netip.Addr
	Kind corev1.NodeAddressType
}

// Proven says that no other kubelet can have made the host's addresses up: they are listed, or a control plane's.
func (h *Host) Proven() bool { return h.Listed || isControlPlane(h.Node) }

// HostsOf returns the Nodes in the order in which they are trusted. Listed returns what the inventory has of a Node; nil:
// there is no inventory.
func HostsOf(nodes []*corev1.Node, listed func(*corev1.Node) []corev1.NodeAddress) []*Host {
	var hosts []*Host
	for _, node := range slices.SortedFunc(slices.Values(nodes), byTrust) {
		h := &Host{Node: node}
		if listed != nil {
			for _, a := range listed(node) {
				if address, err := netip.ParseAddr(a.Address); err == nil {
					h.Addresses = append(h.Addresses, HostAddress{address.Unmap().WithZone(""), a.Type})
				}
			}
		}
		if h.Listed = len(h.Addresses) > 0; !h.Listed {
			h.Addresses = internal(node)
		}
		hosts = append(hosts, h)
	}
	setPods(hosts)
	return hosts
}

// RankOf is the order in which Nodes are trusted, by name.
func RankOf(hosts []*Host) map[string]int {
	rank := map[string]int{}
	for i, h := range hosts {
		rank[h.Name] = i
	}
	return rank
}

// internal are the first InternalIPs of each family.
func internal(node *corev1.Node) []HostAddress {
	var list []HostAddress
	all := slices.DeleteFunc(nodestatus.InternalIPs(node), func(ip netip.Addr) bool { return !ip.IsGlobalUnicast() })
	for _, ip := range nodestatus.FirstOfEachFamily(all) {
		list = append(list, HostAddress{ip, corev1.NodeInternalIP})
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
// is trusted first has none, no controller allocates any, and a Node that has one has it from its kubelet.
func setPods(hosts []*Host) {
	sizes := map[bool]int{} // by whether it is IPv6
	var before []HostAddress
	for i, h := range hosts {
		for _, p := range Prefixes(h.Spec.PodCIDRs) {
			if i == 0 {
				sizes[p.Addr().Is6()] = p.Bits()
			}
			holds := func(a HostAddress) bool { return p.Contains(a.Addr) }
			if size, given := sizes[p.Addr().Is6()]; given && size == p.Bits() && !slices.ContainsFunc(before, holds) {
				h.Pods = append(h.Pods, p.Masked())
			}
		}
		before = append(before, h.Addresses...)
	}
}

// byTrust orders control planes, whose label no kubelet may set, before other Nodes, and then by age.
func byTrust(a, b *corev1.Node) int {
	first, second := isControlPlane(a), isControlPlane(b)
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

func isControlPlane(node *corev1.Node) bool {
	return metav1.HasLabel(node.ObjectMeta, v1alpha1.ControlPlaneLabel)
}

// Prefixes leaves out what cannot be read.
func Prefixes(texts []string) []netip.Prefix {
	var list []netip.Prefix
	for _, text := range texts {
		if p, err := netip.ParsePrefix(text); err == nil {
			list = append(list, p)
		}
	}
	return list
}
