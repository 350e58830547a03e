package lbtest

import (
	"cmp"
	"net"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/lbtest/traffic"
)

type nodeList []corev1.Node

// usable are the Nodes on which a pod can run, workers first, by name.
func (l nodeList) usable() nodeList {
	var list nodeList
	for _, n := range l {
		ready := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
		if ready && !n.Spec.Unschedulable && n.DeletionTimestamp == nil && n.Labels[corev1.LabelOSStable] != "windows" {
			list = append(list, n)
		}
	}
	slices.SortStableFunc(list, func(a, b corev1.Node) int {
		if workerOf(&a) != workerOf(&b) {
			if workerOf(&a) {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	return list
}

// workers are the Nodes to which load balancers send, or all where these are none.
func (l nodeList) workers() nodeList {
	list := slices.DeleteFunc(slices.Clone(l), func(n corev1.Node) bool { return !workerOf(&n) })
	if len(list) == 0 {
		return l
	}
	return list
}

// workerOf is true for a Node that takes ordinary pods, and packets of load balancers.
func workerOf(n *corev1.Node) bool {
	_, excluded := n.Labels[v1alpha1.ExcludeLabel]
	return !excluded && !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
	})
}

// with is the Node that has an address, for itself or for its pods; empty: none.
func (l nodeList) with(address string) string {
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return ""
	}
	addr = addr.Unmap()
	for _, n := range l {
		if slices.ContainsFunc(n.Status.Addresses, func(a corev1.NodeAddress) bool { return sameAddress(a.Address, addr) }) {
			return n.Name
		}
		for _, cidr := range n.Spec.PodCIDRs {
			if prefix, err := netip.ParsePrefix(cidr); err == nil && prefix.Contains(addr) {
				return n.Name
			}
		}
	}
	return ""
}

func sameAddress(text string, addr netip.Addr) bool {
	parsed, err := netip.ParseAddr(text)
	return err == nil && parsed.Unmap() == addr
}

// machine is the Node that this machine is; empty: none.
func (l nodeList) machine() string {
	own, err := net.InterfaceAddrs()
	if err != nil {
		return "" // then the client's source address tells
	}
	for _, a := range own {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil || prefix.Addr().IsLoopback() || prefix.Addr().IsLinkLocalUnicast() {
			continue
		}
		for _, n := range l {
			for _, address := range n.Status.Addresses {
				if sameAddress(address.Address, prefix.Addr().Unmap()) {
					return n.Name
				}
			}
		}
	}
	return ""
}

// hasIPv6 is true for a machine with a global address of that family.
func hasIPv6() bool {
	own, err := net.InterfaceAddrs()
	if err != nil {
		return true // then the connection tells
	}
	return slices.ContainsFunc(own, func(a net.Addr) bool {
		prefix, err := netip.ParsePrefix(a.String())
		return err == nil && prefix.Addr().Is6() && !prefix.Addr().IsLoopback() && !prefix.Addr().IsLinkLocalUnicast()
	})
}

// published is true for the addresses of a Service that are those of Nodes.
func (l nodeList) published(hosts []string) bool {
	return slices.ContainsFunc(hosts, func(host string) bool { return l.with(host) != "" })
}

// judgeSource is the error of a server that saw another address than the client's. as is the address in whose place the client's own is
// translated on the way; empty: it is not translated.
func (l nodeList) judgeSource(sources []traffic.Source, as string) error {
	for _, s := range sources {
		want, err := netip.ParseAddr(cmp.Or(as, s.Own))
		if err != nil {
			return err
		}
		if sameAddress(s.Seen, want.Unmap()) {
			continue
		}
		if node := l.with(s.Seen); node != "" {
			return failf("outside: the server sees client %s as %s, an address of Node %s", want, s.Seen, node)
		}
		return failf("outside: the server sees client %s as %s; if a router on the way translates it, --outside-address names that", want, s.Seen)
	}
	return nil
}
