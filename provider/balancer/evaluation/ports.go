package evaluation

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

// port is one of a Service at level NodeIP.
type port struct {
	number   int32
	protocol corev1.Protocol
}

// Ports gives each port of the Nodes to one Service with addresses of Nodes: to that which has it already, or else to
// the older one. It returns what keeps the others from theirs.
func (m *Machines) Ports(list []*allocator.Assignment) map[types.NamespacedName]*finding.Finding {
	list = slices.SortedFunc(slices.Values(list), func(a, b *allocator.Assignment) int {
		return cmp.Or(cmp.Compare(published(a.Service), published(b.Service)), allocator.Older(a, b))
	})
	owners := m.holders(list)
	problems := map[types.NamespacedName]*finding.Finding{}
	for _, as := range list {
		name := allocator.NameOf(as.Service)
		if problem := m.Proxy.onNodes(len(m.nodes), published(as.Service) == 0); problem != nil {
			problems[name] = problem
			continue
		}
		if problem := m.portProblem(as.Service, owners); problem != nil {
			problems[name] = problem
			continue
		}
		for _, p := range as.Service.Spec.Ports {
			owners[port{p.Port, p.Protocol}] = name
		}
	}
	return problems
}

// holders are the Services which have a port already, by what was published of them: their specs are their owners' to
// change, and a port that it is asked for is not one that he has.
func (m *Machines) holders(list []*allocator.Assignment) map[port]types.NamespacedName {
	owners := map[port]types.NamespacedName{}
	for _, as := range list {
		for _, p := range as.Service.Spec.Ports {
			at := port{p.Port, p.Protocol}
			if _, has := owners[at]; !has && m.holds(as.Service, at) {
				owners[at] = allocator.NameOf(as.Service)
			}
		}
	}
	return owners
}

// holds reports whether the Service was published with the port of the Nodes. What a former release has published names no
// port, as the addresses of pools do, which are none of the Nodes'.
func (m *Machines) holds(service *corev1.Service, at port) bool {
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

// portProblem names what keeps a Service from its ports on every Node.
func (m *Machines) portProblem(service *corev1.Service, owners map[port]types.NamespacedName) *finding.Finding {
	for _, p := range service.Spec.Ports {
		at := port{p.Port, p.Protocol}
		if owner, has := owners[at]; has && owner != allocator.NameOf(service) {
			return finding.PortReserved.Errorf("port %d/%s of the Nodes is that of Service/%s", p.Port, p.Protocol, owner)
		}
		if why := reserved(at); why != "" && !m.anyPort(service) {
			return finding.PortReserved.Errorf("port %d is reserved for %s", p.Port, why)
		}
	}
	var last *finding.Finding
	for _, node := range m.nodes {
		at, is := m.occupied(service, node)
		if !is {
			return nil
		}
		last = finding.PortReserved.Errorf("a program on Node/%s listens on port %d/%s", node.Name, at.number, at.protocol)
	}
	return last
}

// anyPort says that the Service is to have ports of the Nodes whatever listens there. Tenants write Services; they do not
// write the label of their Namespace.
func (m *Machines) anyPort(service *corev1.Service) bool {
	return service.Annotations[v1alpha1.PortsAnnotation] == "any" && m.Namespaces[service.Namespace][v1alpha1.PortsLabel] == "allow"
}

// occupied names a port of the Service on which the agent of the Node says that a program listens: that Node is left out, and no
// other one, since an agent may report any port. A Node that was published with the port stays, whatever listens there later.
func (m *Machines) occupied(service *corev1.Service, node *corev1.Node) (port, bool) {
	listening := m.listening[node.Name]
	if len(listening) == 0 || m.anyPort(service) {
		return port{}, false
	}
	for _, p := range service.Spec.Ports {
		if at := (port{p.Port, p.Protocol}); listening[at] && !m.publishedOn(service, at, node) {
			return at, true
		}
	}
	return port{}, false
}

// hears adds ports to those on which the Node listens.
func (m *Machines) hears(node string, more map[port]bool) {
	if len(more) == 0 {
		return
	}
	all := maps.Clone(m.listening[node])
	if all == nil {
		all = map[port]bool{}
	}
	maps.Copy(all, more)
	m.listening[node] = all
}

// publishedOn reports whether the Service was published with the port at an address of the Node.
func (m *Machines) publishedOn(service *corev1.Service, at port, node *corev1.Node) bool {
	return slices.ContainsFunc(service.Status.LoadBalancer.Ingress, func(i corev1.LoadBalancerIngress) bool {
		of := slices.ContainsFunc(node.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Address == i.IP })
		return of && (len(i.Ports) == 0 || slices.ContainsFunc(i.Ports, func(p corev1.PortStatus) bool {
			return p.Port == at.number && p.Protocol == at.protocol
		}))
	})
}

// reserved names whose port it is on a Node of any cluster.
func reserved(p port) string {
	for _, r := range v1alpha1.ReservedNodePorts() {
		if r.Has(p.number, p.protocol) {
			return r.For
		}
	}
	return ""
}

// maxListening is how many ports of an agent's report count.
const maxListening = 1024

// listeningOf reads PORT or PROTOCOL/PORT, with TCP for none and a block for a port, from the agents' reports, by Node.
func listeningOf(agents []*v1alpha1.NodeAgent) map[string]map[port]bool {
	all := map[string]map[port]bool{}
	for _, agent := range agents {
		ports, blocks := map[port]bool{}, map[port]bool{}
		for _, text := range agent.Status.Listening[:min(len(agent.Status.Listening), maxListening)] {
			protocol, number, ok := strings.Cut(text, "/")
			if !ok {
				protocol, number = string(corev1.ProtocolTCP), text
			}
			first, last, ok := v1alpha1.ParsePorts(number)
			of := corev1.Protocol(strings.ToUpper(protocol))
			if at := (port{int32(first), of}); !ok || last > first && blocks[at] ||
				of != corev1.ProtocolTCP && of != corev1.ProtocolUDP && of != corev1.ProtocolSCTP {
				continue
			} else if last > first {
				blocks[at] = true
			}
			for ; first <= last; first++ {
				ports[port{int32(first), of}] = true
			}
		}
		all[agent.Name] = ports
	}
	return all
}
