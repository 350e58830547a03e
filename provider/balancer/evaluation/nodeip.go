package evaluation

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/nodestatus"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/controlplane"
)

// Machines are what level NodeIP depends on.
type Machines struct {
	nodes  []*corev1.Node
	agents []*v1alpha1.NodeAgent // that have said lately what listens
	// Reported are the reports of all agents, however old, for the networks where Nodes are.
	Reported []*v1alpha1.NodeAgent
	// Addresses are those of all Nodes.
	Addresses map[netip.Addr]bool
	// listening are the ports on which programs of the machines listen, by Node.
	listening map[string]map[port]bool
	// Namespaces have the labels of Namespaces.
	Namespaces map[string]labels.Set
	Proxy      Proxy
	Plane      controlplane.Addresses
	Routers    allocator.Routers
	// Lately are the Nodes that lost condition Ready a moment ago: they keep their addresses in Services meanwhile.
	Lately map[types.UID]bool
	// local are the Nodes with an endpoint, for Services with externalTrafficPolicy Local.
	local map[types.NamespacedName]map[string]bool
}

// NewMachines knows the Nodes and, of their agents and EndpointSlices, which ports listen and where endpoints are.
func NewMachines(hosts []*allocator.Host, agents []*v1alpha1.NodeAgent, slices []*discoveryv1.EndpointSlice) *Machines {
	m := &Machines{agents: agents, local: localNodes(slices), Addresses: map[netip.Addr]bool{}, listening: listeningOf(agents)}
	for _, h := range hosts {
		m.nodes = append(m.nodes, h.Node)
		for _, a := range h.Addresses {
			m.Addresses[a.Addr] = true
		}
	}
	return m
}

// maxNodeAddresses is how many addresses of each family a Service has at level NodeIP: with 1,000 Nodes all of them are 75 kB, which each
// kube-proxy and each agent gets again for every Node that comes or goes.
const maxNodeAddresses = 8

// nodeAddresses returns addresses of Nodes that take traffic for the Service, at most [maxNodeAddresses] of each family, and a remark
// where the exclude label was ignored, since no Node would be left. Where externalTrafficPolicy Local leaves none, it returns those of
// all Nodes together with the problem: a pod may wait for the address of its Service.
func (m *Machines) nodeAddresses(service *corev1.Service) (list []netip.Addr, remark string, problem *finding.Finding) {
	vacant := func(node *corev1.Node) bool { _, is := m.occupied(service, node); return !is }
	eligible, remark := m.eligible(func(node *corev1.Node) bool { return m.serves(service, node) && vacant(node) })
	if len(eligible) == 0 && isLocal(service) {
		problem = m.noneEligible(service, allocator.Families(service)[0], 0)
		eligible, remark = m.eligible(vacant)
	}
	for _, ipv6 := range allocator.Families(service) {
		family := chosen(service, eligible, ipv6)
		if len(family) == 0 && allocator.NeedsAll(service) {
			return nil, "", m.noneEligible(service, ipv6, len(eligible))
		}
		list = append(list, family...)
	}
	if len(list) == 0 {
		return nil, "", m.noneEligible(service, allocator.Families(service)[0], len(eligible))
	}
	return list, remark, problem
}

// eligible are the Nodes that take traffic from outside, as far as may allows.
func (m *Machines) eligible(may func(*corev1.Node) bool) (nodes []*corev1.Node, remark string) {
	var excluded []*corev1.Node
	for _, node := range m.nodes {
		switch {
		case !Carries(node) && (!m.Lately[node.UID] || Leaves(node)), !may(node):
		case metav1.HasLabel(node.ObjectMeta, v1alpha1.ExcludeLabel):
			excluded = append(excluded, node)
		default:
			nodes = append(nodes, node)
		}
	}
	if len(nodes) == 0 && len(excluded) > 0 {
		return excluded, "; all Nodes have label " + v1alpha1.ExcludeLabel + ", so the label is ignored"
	}
	return nodes, ""
}

func isLocal(service *corev1.Service) bool {
	return service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// serves reports whether packets that reach the Node reach an endpoint of the Service.
func (m *Machines) serves(service *corev1.Service, node *corev1.Node) bool {
	return !isLocal(service) || m.local[allocator.NameOf(service)][node.Name]
}

// unserved says that no Node has an endpoint which externalTrafficPolicy Local asks for.
func (m *Machines) unserved(service *corev1.Service) bool {
	return isLocal(service) && len(m.local[allocator.NameOf(service)]) == 0
}

func (m *Machines) noneEligible(service *corev1.Service, ipv6 bool, eligible int) *finding.Finding {
	switch {
	case eligible > 0:
		return finding.NoEligibleNode.Errorf("none of %d Nodes has an %s address", eligible, allocator.FamilyName(ipv6))
	case m.unserved(service):
		return finding.NoReadyEndpoint.Errorf("no ready endpoint; externalTrafficPolicy is Local")
	case isLocal(service):
		return finding.NoEligibleNode.Errorf("none of %d Nodes is ready and has an endpoint, which externalTrafficPolicy "+
			"Local requires", len(m.nodes))
	}
	return finding.NoEligibleNode.Errorf("none of %d Nodes is ready", len(m.nodes))
}

// chosen are up to [maxNodeAddresses] addresses of the Nodes, in order. A second address of a Node comes after the first ones of all Nodes:
// it is no further machine. Else those that the Service has already come first: Nodes that come and go change as few Services as possible.
func chosen(service *corev1.Service, nodes []*corev1.Node, ipv6 bool) []netip.Addr {
	has := allocator.Earlier(service, true)
	var list []candidate
	for _, node := range nodes {
		for i, address := range addressesOf(node, ipv6) {
			list = append(list, candidate{address: address, place: i, node: node.Name})
		}
	}
	if len(list) > maxNodeAddresses { // else the order is none
		for i := range list {
			c := &list[i]
			if !slices.Contains(has, c.address) {
				c.other = 1
			}
			c.score = sha256.Sum256([]byte(service.Namespace + "/" + service.Name + "/" + c.node))
		}
		slices.SortStableFunc(list, func(a, b candidate) int {
			return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(a.other, b.other), bytes.Compare(a.score[:], b.score[:]), a.address.Compare(b.address))
		})
	}
	var family []netip.Addr
	for _, c := range list {
		if !slices.Contains(family, c.address) && len(family) < maxNodeAddresses {
			family = append(family, c.address)
		}
	}
	slices.SortFunc(family, netip.Addr.Compare)
	return family
}

// candidate is an address of a Node that a Service may have.
type candidate struct {
	address netip.Addr
	place   int // among the addresses of its Node
	other   int // 1: the Service does not have it
	node    string
	score   [sha256.Size]byte // of Service and Node: another order for each Service (rendezvous hashing)
}

// Carries reports whether a Node takes traffic from outside: it is ready, initialized, and not about to go.
func Carries(node *corev1.Node) bool { return !Leaves(node) && nodestatus.IsReady(node) }

// Leaves reports whether a Node takes no traffic from outside whatever its condition Ready says: it is deleted, about to go, or not
// initialized.
func Leaves(node *corev1.Node) bool {
	return node.DeletionTimestamp != nil || slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		switch taint.Key {
		case v1alpha1.AutoscalerTaint, corev1.TaintNodeOutOfService, v1alpha1.ShutdownTaint, v1alpha1.UninitializedTaint:
			return true
		}
		return false
	})
}

// addressesOf are a Node's external addresses of the family, or else its internal ones.
func addressesOf(node *corev1.Node, ipv6 bool) []netip.Addr {
	for _, kind := range []corev1.NodeAddressType{corev1.NodeExternalIP, corev1.NodeInternalIP} {
		var list []netip.Addr
		for _, a := range node.Status.Addresses {
			address, err := netip.ParseAddr(a.Address)
			if err == nil && a.Type == kind && address.Is6() == ipv6 && !address.IsLoopback() && !address.IsLinkLocalUnicast() {
				list = append(list, address)
			}
		}
		if len(list) > 0 {
			return list
		}
	}
	return nil
}

// localNodes are the Nodes with endpoints, by Service.
func localNodes(slices []*discoveryv1.EndpointSlice) map[types.NamespacedName]map[string]bool {
	local := map[types.NamespacedName]map[string]bool{}
	for _, slice := range slices {
		nodes := EndpointNodes(slice)
		if len(nodes) == 0 {
			continue
		}
		name := types.NamespacedName{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}
		if local[name] == nil {
			local[name] = nodes
		} else {
			maps.Copy(local[name], nodes)
		}
	}
	return local
}

// EndpointNodes are the Nodes with an endpoint of the slice that kube-proxy sends packets to: ready, or terminating and still serving.
func EndpointNodes(slice *discoveryv1.EndpointSlice) map[string]bool {
	nodes := map[string]bool{}
	for _, endpoint := range slice.Endpoints {
		c := endpoint.Conditions
		if endpoint.NodeName != nil && (ptr.Deref(c.Ready, true) || ptr.Deref(c.Serving, true) && ptr.Deref(c.Terminating, false)) {
			nodes[*endpoint.NodeName] = true
		}
	}
	return nodes
}

// have reports whether the address is a Node's.
func (m *Machines) have(address netip.Addr) bool { return m.Addresses[address] }

// describe is for the condition of a Service at level NodeIP.
func describe(list []netip.Addr, remark string) string {
	return fmt.Sprintf("level NodeIP: %s of Nodes%s", finding.Count(len(list), "address"), remark)
}
