package balancer

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// port is one of a Service at level NodeIP.
type port struct {
	number   int32
	protocol corev1.Protocol
}

// ports gives each port of the Nodes to one Service with addresses of Nodes: to that which has it already, or else to
// the older one. It returns what keeps the others from theirs.
func (m *machines) ports(list []*assignment) map[types.NamespacedName]*finding.Finding {
	list = slices.SortedFunc(slices.Values(list), func(a, b *assignment) int {
		return cmp.Or(cmp.Compare(published(a.service), published(b.service)), older(a, b))
	})
	owners := m.holders(list)
	problems := map[types.NamespacedName]*finding.Finding{}
	listening := m.listening()
	for _, as := range list {
		name := nameOf(as.service)
		if problem := m.proxy.onNodes(len(m.nodes), published(as.service) == 0); problem != nil {
			problems[name] = problem
			continue
		}
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

// holders are the Services which have a port already, by what was published of them: their specs are their owners' to
// change, and a port that somebody asks for is not one that he has.
func (m *machines) holders(list []*assignment) map[port]types.NamespacedName {
	owners := map[port]types.NamespacedName{}
	for _, as := range list {
		for _, p := range as.service.Spec.Ports {
			at := port{p.Port, p.Protocol}
			if _, has := owners[at]; !has && m.holds(as.service, at) {
				owners[at] = nameOf(as.service)
			}
		}
	}
	return owners
}

// holds says whether the Service was published with the port of the Nodes. What a former release has published names no
// port, as the addresses of pools do, which are none of the Nodes'.
func (m *machines) holds(service *corev1.Service, at port) bool {
	return slices.ContainsFunc(service.Status.LoadBalancer.Ingress, func(i corev1.LoadBalancerIngress) bool {
		address, err := netip.ParseAddr(i.IP)
		if len(i.Ports) == 0 {
			return err == nil && m.have(address)
		}
		return slices.ContainsFunc(i.Ports, func(p corev1.PortStatus) bool {
			return p.Port == at.number && p.Protocol == at.protocol
		})
	})
}

// published orders Services with addresses before those without.
func published(service *corev1.Service) int {
	if len(service.Status.LoadBalancer.Ingress) > 0 {
		return 0
	}
	return 1
}

// portProblem names what keeps a Service from its ports. One that has them keeps them, whoever listens there later.
func (m *machines) portProblem(service *corev1.Service, owners map[port]types.NamespacedName,
	listening map[port]string,
) *finding.Finding {
	anyPort := service.Annotations[v1alpha1.PortsAnnotation] == "any"
	said := condition(service)
	onNodes := said != nil && said.Reason == nodeIPReason || slices.ContainsFunc(earlier(service, true), m.have)
	kept := func(at port) bool { return onNodes && (published(service) > 0 || m.holds(service, at)) }
	for _, p := range service.Spec.Ports {
		at := port{p.Port, p.Protocol}
		if owner, has := owners[at]; has && owner != nameOf(service) {
			return finding.PortReserved.Errorf("port %d/%s of the Nodes is that of Service/%s", p.Port, p.Protocol, owner)
		}
		if anyPort {
			continue
		}
		if why := reserved(at); why != "" {
			return finding.PortReserved.Errorf("port %d is reserved for %s", p.Port, why)
		}
		if node, there := listening[at]; there && !kept(at) {
			return finding.PortReserved.Errorf("something on Node/%s listens on port %d/%s", node, p.Port, p.Protocol)
		}
	}
	return nil
}

// reserved names whose port it is on a Node of any cluster.
func reserved(p port) string {
	within := func(first, last int32) bool { return p.number >= first && p.number <= last }
	switch {
	case p.number == 22:
		return "SSH"
	case p.number == 179:
		return "BGP"
	case within(2379, 2381):
		return "etcd"
	case p.number == 6443:
		return "the API server"
	case within(10248, 10260):
		return "Kubernetes itself"
	case within(v1alpha1.HeartbeatPort, v1alpha1.ProxyPort): // and, between, what they serve to their own machine
		return "the node agents"
	case p.number == 3784 && p.protocol == corev1.ProtocolUDP:
		return "BFD"
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
