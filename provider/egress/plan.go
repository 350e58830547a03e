// Package egress lets packets of pods leave the cluster with the address of their Service, at level L2: Service by Service, where label
// ccmadm.dev/egress=true asks for it.
//
// Start at [NewPlan], which says whose packets leave with which address, and at [Agent], which makes the kernel of its Node do so. The owner
// of the address translates the source. All other Nodes send packets of their pods to the owner: the next hop is the address itself, for
// which the owner answers ARP and NDP. So the packets follow a failover as clients do, and no Node has to know who the owner is.
//
// Reads: what the agent has read; the routes of the machine. Writes, on the machine only: table ccmadm-egress of nftables, rules with
// protocol 158 and priority 1580, one routing table for each address, entries of connection tracking.
// Running it twice: what is there stays, and what no Service needs is removed.
// It will not: let a packet of such a pod leave with another address. Without an owner, and on a Node without a way to the address, they
// are dropped. What is there goes on while no agent runs. A pod that has just started is not known yet, nor is any before the agent has
// started once after a boot.
package egress

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/nodestatus"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/routes"
)

// Inputs are what a plan depends on.
type Inputs struct {
	// Node is the name of the agent's own.
	Node string
	// Nodes are all of the cluster.
	Nodes []*corev1.Node
	// Addresses are those of Services at level L2.
	Addresses []Address
	// Services by NAMESPACE/NAME, and the EndpointSlices of those with the label.
	Services map[string]*corev1.Service
	Slices   []*discoveryv1.EndpointSlice
	// OwnRanges: pods of a Node have addresses in its ranges, Node.spec.podCIDRs, as ccmadm's routes have it.
	OwnRanges bool
	// Within are the cluster's ranges of pods, if they are known.
	Within []netip.Prefix
	// Servers are the machines with an API server, which no kubelet names, and Endpoints where clients reach it: also a load balancer's.
	Servers, Endpoints []netip.Addr
}

// Address is one that was assigned to Services.
type Address struct {
	netip.Addr
	// Services are the one that has the address, and those that share it.
	Services []types.NamespacedName
	// Interface is where this Node reaches the address. Empty: nowhere.
	Interface string
	// Unfit: a Node may own the address that would let packets pass with their own source. None are sent to the owner.
	Unfit bool
}

// Plan says which packets leave the cluster with which address. It has all pods of all Nodes.
type Plan struct {
	// Pods are sorted by address, and each is there once.
	Pods []Pod
	// ranges are those of pods, by Node.
	ranges map[string][]netip.Prefix
}

// Pod is one whose packets leave the cluster with an address of a Service.
type Pod struct {
	// IP is the pod's own address.
	IP netip.Addr
	// Here: the pod is on this Node.
	Here bool
	// Address is that of the Service, of the same family, and Interface by which packets go to its owner. Empty: by none.
	Address   netip.Addr
	Interface string
}

// Counts are for metrics.
type Counts struct {
	// Pods is the number of pods of the cluster whose packets leave with the address of a Service, and Owned of how many of them by this Node.
	Pods, Owned int
	// Failing is 1 where the kernel does not have what it should.
	Failing int
}

// NewPlan is what the cluster asks for. A Service without an address of a pod's family at level L2 asks for nothing. If several Services with
// the label have a pod, the oldest one counts. Who may write EndpointSlices can name any pod, if it is not in another Node's range: Kubernetes
// has allowed that to no tenant since 1.22. Addresses of the pod's Node and of API servers never count.
//
// A kubelet may say of its pods that they have any address. If endpoints of two Nodes have the same one, those of this Node count: it knows its
// own pods. Else those count that send their packets here, by an address which owns says this Node owns, then those in whose Node's range the
// address is: where ranges are those of pods, a Node alone cannot stop the packets of another one's pods, or have them translated.
func NewPlan(in Inputs, owns func(netip.Addr) bool) Plan {
	asking := in.asking()
	if len(asking) == 0 {
		return Plan{}
	}
	ranges := in.podRanges()
	isPod, endpoints := in.pods(ranges), in.endpoints()
	said := map[netip.Addr][]podOf{}
	for _, a := range asking {
		for _, e := range endpoints[types.NamespacedName{Namespace: a.service.Namespace, Name: a.service.Name}] {
			for _, text := range e.Addresses {
				ip, err := netip.ParseAddr(text)
				if err != nil || e.NodeName == nil || !isPod(*e.NodeName, ip) {
					continue
				}
				node := *e.NodeName
				older := slices.ContainsFunc(said[ip], func(p podOf) bool { return p.node == node })
				address, has := a.of(ip)
				if older || !has {
					continue
				}
				pod := Pod{IP: ip, Here: node == in.Node, Address: address.Addr, Interface: address.Interface}
				if address.Unfit {
					pod.Interface = ""
				}
				said[ip] = append(said[ip], podOf{pod, node})
			}
		}
	}
	plan := Plan{ranges: ranges}
	for _, of := range said {
		plan.Pods = append(plan.Pods, credible(of, ranges, owns))
	}
	slices.SortFunc(plan.Pods, func(a, b Pod) int { return a.IP.Compare(b.IP) })
	return plan
}

// podOf is a pod as a Node says that it has it.
type podOf struct {
	Pod
	node string
}

// credible is the pod of an address of which Nodes say that it is that of a pod of theirs; of equals, that of the oldest Service.
func credible(of []podOf, ranges map[string][]netip.Prefix, owns func(netip.Addr) bool) Pod {
	if len(of) == 1 {
		return of[0].Pod
	}
	rank := func(p podOf) (rank int) {
		if !p.Here {
			rank = 4
		}
		if !owns(p.Address) {
			rank += 2
		}
		if !slices.ContainsFunc(ranges[p.node], func(r netip.Prefix) bool { return r.Contains(p.IP) }) {
			rank++
		}
		return rank
	}
	return slices.MinFunc(of, func(a, b podOf) int { return cmp.Compare(rank(a), rank(b)) }).Pod
}

// endpoints by Service.
func (in Inputs) endpoints() map[types.NamespacedName][]discoveryv1.Endpoint {
	of := map[types.NamespacedName][]discoveryv1.Endpoint{}
	for _, slice := range in.Slices {
		name := types.NamespacedName{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}
		of[name] = append(of[name], slice.Endpoints...)
	}
	return of
}

// asking is a Service with the label, and its addresses.
type asking struct {
	service   *corev1.Service
	addresses []Address
}

// of is the address of the family of a pod's, the first one if there are several.
func (a asking) of(ip netip.Addr) (Address, bool) {
	for _, address := range a.addresses {
		if address.Is4() == ip.Is4() {
			return address, true
		}
	}
	return Address{}, false
}

// asking are the Services with the label that have an address, the oldest first.
func (in Inputs) asking() []asking {
	byName := map[types.NamespacedName][]Address{}
	for _, a := range slices.SortedFunc(slices.Values(in.Addresses), func(a, b Address) int { return a.Compare(b.Addr) }) {
		for _, name := range a.Services {
			if s := in.Services[name.String()]; s != nil && v1alpha1.WantsEgress(s.Labels) {
				byName[name] = append(byName[name], a)
			}
		}
	}
	var list []asking
	for name, addresses := range byName {
		list = append(list, asking{in.Services[name.String()], addresses})
	}
	slices.SortFunc(list, func(a, b asking) int {
		return cmp.Or(a.service.CreationTimestamp.Compare(b.service.CreationTimestamp.Time),
			cmp.Compare(a.service.Namespace, b.service.Namespace), cmp.Compare(a.service.Name, b.service.Name))
	})
	return list
}

// pods returns whether an address can be that of a pod of a Node, and of no other's: one with hostNetwork has those of its Node.
func (in Inputs) pods(ranges map[string][]netip.Prefix) func(node string, ip netip.Addr) bool {
	hosts, servers := map[string]map[netip.Addr]bool{}, map[netip.Addr]bool{}
	for _, n := range in.Nodes {
		hosts[n.Name] = map[netip.Addr]bool{}
		for _, a := range n.Status.Addresses {
			if ip, err := netip.ParseAddr(a.Address); err == nil {
				hosts[n.Name][ip] = true
			}
		}
	}
	for _, ip := range slices.Concat(in.Servers, in.Endpoints) {
		servers[ip] = true
	}
	return func(node string, ip netip.Addr) bool {
		within := func(p netip.Prefix) bool { return p.Contains(ip) }
		return hosts[node] != nil && !hosts[node][ip] && !servers[ip] && (!in.OwnRanges || slices.ContainsFunc(ranges[node], within))
	}
}

// podRanges are those of the Nodes, without those that a kubelet cannot have got.
func (in Inputs) podRanges() map[string][]netip.Prefix {
	ranges := map[string][]netip.Prefix{}
	intents, _ := routes.Intents(in.Node, in.Nodes, in.Within)
	for _, i := range intents {
		ranges[i.Node] = append(ranges[i.Node], i.Destination)
	}
	return ranges
}

// controlPlanes are the addresses of machines with an API server, and those that Nodes with the label of control planes report: no kubelet
// names API servers, and NodeRestriction lets none set that label. An API server that ends takes itself out of the list, while its machine
// goes on as a router.
func (in Inputs) controlPlanes() map[netip.Addr]bool {
	are := map[netip.Addr]bool{}
	for _, ip := range in.Servers {
		are[ip] = true
	}
	for _, n := range in.Nodes {
		if metav1.HasLabel(n.ObjectMeta, v1alpha1.ControlPlaneLabel) {
			for _, ip := range nodestatus.InternalIPs(n) {
				are[ip] = true
			}
		}
	}
	return are
}

// cluster are the destinations that packets of pods reach as ever: ranges of pods, API servers, and Nodes in a network of this machine,
// since a kubelet may report any address.
func (in Inputs) cluster(ranges map[string][]netip.Prefix, networks []netip.Prefix) []netip.Prefix {
	list := slices.Clone(in.Within)
	for _, of := range ranges {
		list = append(list, of...)
	}
	add := func(ip netip.Addr) { list = append(list, netip.PrefixFrom(ip, ip.BitLen())) }
	for _, n := range in.Nodes {
		for _, ip := range nodestatus.InternalIPs(n) {
			if slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(ip) }) {
				add(ip)
			}
		}
	}
	for _, ip := range slices.Concat(in.Servers, in.Endpoints) {
		add(ip)
	}
	return list
}
