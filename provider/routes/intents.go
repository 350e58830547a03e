// Package routes leads packets between the pods of different machines: one route in every machine's kernel for each
// range of pods of every other Node, and a provider's answers about them.
//
// Two programs have a part each. Start at [Agent], which runs on every machine and sets the routes, and at [Routes],
// which the cloud-controller-manager offers to upstream's route controller. They do not talk: an agent computes its
// routes from the Nodes ([Intents]), and reports in the NodeRoutes of its own Node what its kernel has; [Routes] answers
// from these reports, and takes from NodeAgents whether an agent lives.
//
// Reads: Nodes (podCIDRs, InternalIPs, who wrote the condition NetworkUnavailable), NodeAgents, NodeRoutes, and DaemonSets, to
// know network add-ons that own the routes; an agent only where its Node has had the condition of one for minutes.
// Writes: on a machine, routes of the main table with protocol 158, and where pods are to be connected, too, table
// ccmadm-pods of nftables and one file with a CNI configuration. In the cluster nothing.
// Running it twice: what is there stays. An agent that starts takes over the routes of the one before it; those that
// no Node wants any more it removes, once it knows the Nodes.
// It will not: touch a route with another protocol, set a route where another program has one for the same range, work
// beside a network add-on that owns routes, remove anything because the API server does not answer.
package routes

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/nodestatus"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/netfilter"
)

// The reasons of a v1alpha1.RouteProblem.
const (
	// Foreign: another program has a route for the range, or owns all of them.
	Foreign = "Foreign"
	// Unreachable: there is no next hop in a network that this machine is in.
	Unreachable = "Unreachable"
	// Rejected: the range must not be routed, or the kernel refused.
	Rejected = "Rejected"
)

// Intent is a route that a machine should have.
type Intent struct {
	Destination netip.Prefix
	// Via is the InternalIP of Node. It is invalid for the machine's own range, for which the kernel gets an unreachable
	// route, so that what no pod of it takes goes nowhere instead of out by the default route.
	Via  netip.Addr
	Node string
}

func (i Intent) problem(reason, message string) v1alpha1.RouteProblem {
	return v1alpha1.RouteProblem{Destination: i.Destination.String(), Node: i.Node, Reason: reason, Message: message}
}

// Intents returns the routes that the machine of Node self should have, by their destination, and the ranges for which
// there can be none. A kubelet writes podCIDRs and addresses into a Node that it makes, and must not catch or cut the
// traffic of others with them: a range is refused where it overlaps that of an older Node, or contains an address of an
// older one. Where within is not empty, ranges must lie in it, and addresses that do are ignored.
func Intents(self string, nodes []*corev1.Node, within []netip.Prefix) ([]Intent, []v1alpha1.RouteProblem) {
	var list []Intent
	var problems []v1alpha1.RouteProblem
	lengths := lengthsOf(nodes)
	c := chooser{self: self, within: within, ranges: newOverlaps(lengths), hosts: newOverlaps(lengths)}
	for _, n := range nodes {
		if n.Name == self {
			c.addHosts(n) // this machine must be reached whoever is older
		}
	}
	for _, n := range oldestFirst(nodes) {
		problems = append(problems, c.addHosts(n)...)
		for _, text := range n.Spec.PodCIDRs {
			intent, reason, message := c.intentFor(n, text)
			if reason != "" {
				problem := intent.problem(reason, message)
				problem.Destination = text // as the Node has it, valid or not
				problems = append(problems, problem)
				continue
			}
			c.ranges.add(intent.Destination, n.Name)
			list = append(list, intent)
		}
	}
	slices.SortFunc(list, func(a, b Intent) int { return a.Destination.Compare(b.Destination) })
	return list, problems
}

// chooser goes through the Nodes, the oldest first.
type chooser struct {
	self   string
	within []netip.Prefix
	ranges *overlaps // of pods, that are chosen
	hosts  *overlaps // addresses of the Nodes up to now
}

// addHosts notes the addresses of a Node. The problem is one among the pods' addresses.
func (c *chooser) addHosts(n *corev1.Node) (problems []v1alpha1.RouteProblem) {
	for _, address := range nodestatus.InternalIPs(n) {
		host := netip.PrefixFrom(address, address.BitLen())
		if !c.isPods(host) {
			c.hosts.add(host, address.String())
		} else if problems == nil { // one of a Node says it
			problem := Intent{Destination: host, Node: n.Name}.problem(Rejected,
				fmt.Sprintf("InternalIP %s lies within the cluster's range of pods: it is ignored", address))
			problems = append(problems, problem)
		}
	}
	return problems
}

// isPods reports whether a range lies in the cluster's range of pods, where that is known.
func (c *chooser) isPods(p netip.Prefix) bool {
	return slices.ContainsFunc(c.within, func(w netip.Prefix) bool { return w.Bits() <= p.Bits() && w.Contains(p.Addr()) })
}

// intentFor is the route to one range of a Node, or why there is none.
func (c *chooser) intentFor(n *corev1.Node, text string) (intent Intent, reason, message string) {
	intent.Node = n.Name
	destination, err := netip.ParsePrefix(text)
	if err != nil {
		return intent, Rejected, err.Error()
	}
	intent.Destination = destination.Masked()
	if len(c.within) > 0 && !c.isPods(intent.Destination) {
		return intent, Rejected, fmt.Sprintf("not within the cluster's range of pods, %v", c.within)
	}
	if host, found := c.hosts.find(intent.Destination); found {
		return intent, Rejected, "contains " + host + ", an address of a Node"
	}
	if other, found := c.ranges.find(intent.Destination); found {
		return intent, Rejected, "overlaps the range of Node/" + other
	}
	if n.Name == c.self {
		return intent, "", ""
	}
	for _, address := range nodestatus.InternalIPs(n) {
		if address.Is4() == intent.Destination.Addr().Is4() && !c.isPods(netip.PrefixFrom(address, address.BitLen())) {
			intent.Via = address
			return intent, "", ""
		}
	}
	return intent, Unreachable, "Node/" + n.Name + " has no InternalIP of this family"
}

// lengthsOf are the lengths of the Nodes' ranges, each once.
func lengthsOf(nodes []*corev1.Node) []int {
	var list []int
	for _, n := range nodes {
		for _, text := range n.Spec.PodCIDRs {
			if p, err := netip.ParsePrefix(text); err == nil && !slices.Contains(list, p.Bits()) {
				list = append(list, p.Bits())
			}
		}
	}
	slices.Sort(list)
	return list
}

// oldestFirst settles who keeps a range that two Nodes have.
func oldestFirst(nodes []*corev1.Node) []*corev1.Node {
	return slices.SortedFunc(slices.Values(nodes), func(a, b *corev1.Node) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

// clusterAddresses are those that know the way to pods: ranges of pods, and of the Nodes' addresses those that are near.
func clusterAddresses(
	nodes []*corev1.Node, intents []Intent, near func(n *corev1.Node, address netip.Addr) bool,
) []netip.Prefix {
	var list []netip.Prefix
	for _, intent := range intents {
		list = append(list, intent.Destination)
	}
	for _, n := range nodes {
		for _, address := range nodestatus.InternalIPs(n) {
			if near(n, address) {
				list = append(list, netip.PrefixFrom(address, address.BitLen()))
			}
		}
	}
	return netfilter.Disjoint(list)
}
