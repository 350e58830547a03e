package balancer

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// machines are what level NodeIP depends on.
type machines struct {
	nodes  []*corev1.Node
	agents []*v1alpha1.NodeAgent
	// local are the Nodes with an endpoint, for Services with externalTrafficPolicy Local.
	local map[types.NamespacedName]map[string]bool
}

// nodeAddresses returns the addresses of the Nodes that take traffic for the Service, and a remark where the exclude
// label was ignored, since no Node would be left.
func (m *machines) nodeAddresses(service *corev1.Service) (list []netip.Addr, remark string, problem *finding.Finding) {
	var eligible, excluded []*corev1.Node
	local := service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	for _, node := range m.nodes {
		switch {
		case !carries(node), local && !m.local[nameOf(service)][node.Name]:
		case hasLabel(node, v1alpha1.ExcludeLabel):
			excluded = append(excluded, node)
		default:
			eligible = append(eligible, node)
		}
	}
	if len(eligible) == 0 && len(excluded) > 0 {
		eligible, remark = excluded, "; all Nodes have label "+v1alpha1.ExcludeLabel+", which is ignored therefore"
	}
	for _, ipv6 := range families6(service) {
		var family []netip.Addr
		for _, node := range eligible {
			family = append(family, addressesOf(node, ipv6)...)
		}
		if len(family) == 0 && needsAll(service) {
			return nil, "", m.noneEligible(service, ipv6, len(eligible))
		}
		slices.SortFunc(family, netip.Addr.Compare)
		list = append(list, slices.Compact(family)...)
	}
	if len(list) == 0 {
		return nil, "", m.noneEligible(service, families6(service)[0], len(eligible))
	}
	return list, remark, nil
}

func (m *machines) noneEligible(service *corev1.Service, ipv6 bool, eligible int) *finding.Finding {
	switch {
	case eligible > 0:
		return finding.NoEligibleNode.Errorf("none of %d Nodes has an %s address", eligible, familyName(ipv6))
	case service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal:
		return finding.NoEligibleNode.Errorf("none of %d Nodes is ready and has an endpoint, which externalTrafficPolicy "+
			"Local asks for", len(m.nodes))
	}
	return finding.NoEligibleNode.Errorf("none of %d Nodes is ready", len(m.nodes))
}

// carries says whether a Node takes traffic from outside: it is ready, initialized, and not about to go.
func carries(node *corev1.Node) bool {
	if node.DeletionTimestamp != nil {
		return false
	}
	for _, taint := range node.Spec.Taints {
		switch taint.Key {
		case v1alpha1.AutoscalerTaint, corev1.TaintNodeOutOfService, v1alpha1.ShutdownTaint,
			v1alpha1.UninitializedTaint:
			return false
		}
	}
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func hasLabel(node *corev1.Node, key string) bool { _, ok := node.Labels[key]; return ok }

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

// localNodes are the Nodes with an endpoint that kube-proxy sends packets to: ready, or terminating and still serving.
func localNodes(slices []*discoveryv1.EndpointSlice) map[types.NamespacedName]map[string]bool {
	local := map[types.NamespacedName]map[string]bool{}
	for _, slice := range slices {
		name := types.NamespacedName{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}
		for _, endpoint := range slice.Endpoints {
			c := endpoint.Conditions
			if endpoint.NodeName == nil || !isTrue(c.Ready, true) && (!isTrue(c.Serving, true) || !isTrue(c.Terminating, false)) {
				continue
			}
			if local[name] == nil {
				local[name] = map[string]bool{}
			}
			local[name][*endpoint.NodeName] = true
		}
	}
	return local
}

// port is one of a Service at level NodeIP.
type port struct {
	number   int32
	protocol corev1.Protocol
}

// ports gives each port of the Nodes to one Service of level NodeIP, those first which have it already, and returns what
// keeps the others from theirs.
func (m *machines) ports(list []*assignment) map[types.NamespacedName]*finding.Finding {
	list = slices.SortedStableFunc(slices.Values(list), func(a, b *assignment) int {
		return cmp.Compare(published(a.service), published(b.service))
	})
	owners := map[port]types.NamespacedName{}
	problems := map[types.NamespacedName]*finding.Finding{}
	listening := m.listening()
	for _, as := range list {
		name := nameOf(as.service)
		if problem := m.portProblem(as.service, owners, listening); problem != nil {
			problems[name] = problem
			continue
		}
		for _, p := range as.service.Spec.Ports {
			owners[port{p.Port, p.Protocol}] = name
		}
	}
	return problems
}

// published orders Services with addresses before those without.
func published(service *corev1.Service) int {
	if len(service.Status.LoadBalancer.Ingress) > 0 {
		return 0
	}
	return 1
}

// portProblem names what keeps a Service from its ports. One that has them keeps them, whoever listens there later.
func (m *machines) portProblem(service *corev1.Service, owners map[port]types.NamespacedName, listening map[port]string) *finding.Finding {
	anyPort := service.Annotations[v1alpha1.PortsAnnotation] == "any"
	kept := m.have(earlier(service, true))
	for _, p := range service.Spec.Ports {
		at := port{p.Port, p.Protocol}
		if owner, has := owners[at]; has {
			return finding.PortReserved.Errorf("port %d/%s of the Nodes is that of Service/%s", p.Port, p.Protocol, owner)
		}
		if anyPort {
			continue
		}
		if why := reserved(p.Port); why != "" {
			return finding.PortReserved.Errorf("port %d is reserved for %s", p.Port, why)
		}
		if node, there := listening[at]; there && !kept {
			return finding.PortReserved.Errorf("something on Node/%s listens on port %d/%s", node, p.Port, p.Protocol)
		}
	}
	return nil
}

// reserved names whose port it is on a Node of any cluster.
func reserved(number int32) string {
	within := func(first, last int32) bool { return number >= first && number <= last }
	switch {
	case number == 22:
		return "SSH"
	case number == 179:
		return "BGP"
	case within(2379, 2381):
		return "etcd"
	case number == 6443:
		return "the API server"
	case within(10248, 10260):
		return "Kubernetes itself"
	case within(30000, 32767):
		return "NodePorts"
	}
	return ""
}

// listening reads PORT or PROTOCOL/PORT, with TCP for none, from the agents' reports.
func (m *machines) listening() map[port]string {
	list := map[port]string{}
	for _, agent := range m.agents {
		for _, text := range agent.Status.Listening {
			protocol, number, ok := strings.Cut(text, "/")
			if !ok {
				protocol, number = string(corev1.ProtocolTCP), text
			}
			if n, err := strconv.ParseInt(number, 10, 32); err == nil {
				list[port{int32(n), corev1.Protocol(strings.ToUpper(protocol))}] = agent.Name
			}
		}
	}
	return list
}

// have says whether all addresses, one at least, are of Nodes.
func (m *machines) have(list []netip.Addr) bool {
	for _, address := range list {
		if !slices.ContainsFunc(m.nodes, func(n *corev1.Node) bool {
			return slices.Contains(addressesOf(n, address.Is6()), address)
		}) {
			return false
		}
	}
	return len(list) > 0
}

// describe is for the condition of a Service at level NodeIP.
func describe(list []netip.Addr, remark string) string {
	return fmt.Sprintf("level NodeIP: %d addresses of Nodes%s", len(list), remark)
}
