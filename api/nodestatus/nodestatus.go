// Package nodestatus reads the status of a Node.
//
// Start at [InternalIPs] and [IsReady].
//
// Reads: the Node that it is given. Writes: nothing.
// Running it twice: the answer depends on the Node only.
// It will not: say whether a status is true. A kubelet writes it, and may write what it likes.
package nodestatus

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// InternalIPs returns the addresses of type InternalIP, in their order, IPv4 in its own form. What is no address, or has a
// zone, is left out: behind a zone any text would do, and would be on a command line of another machine.
func InternalIPs(node *corev1.Node) []netip.Addr {
	var list []netip.Addr
	for _, a := range node.Status.Addresses {
		if ip, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP && ip.Zone() == "" {
			list = append(list, ip.Unmap())
		}
	}
	return list
}

// FirstOfEachFamily returns the first IPv4 and the first IPv6 address of a list, in its order, as --node-ip takes them.
func FirstOfEachFamily(list []netip.Addr) []netip.Addr {
	var first []netip.Addr
	for _, ip := range list {
		if !slices.ContainsFunc(first, func(other netip.Addr) bool { return other.Is4() == ip.Is4() }) {
			first = append(first, ip)
		}
	}
	return first
}

// IsReady returns whether the condition Ready is True.
func IsReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
