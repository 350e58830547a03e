package v1alpha1

import corev1 "k8s.io/api/core/v1"

// ReservedPorts are ports that any Node may need for itself.
//
// +k8s:deepcopy-gen=false
type ReservedPorts struct {
	First, Last int32
	// Protocol is empty for all of them.
	Protocol corev1.Protocol
	// For names whose they are.
	For string
}

// ReservedNodePorts are those that no Service with the Nodes' own addresses has, unless PortsAnnotation says so. The
// cloud-controller-manager publishes none with them; NodePortsPolicyName keeps them from those that are published.
func ReservedNodePorts() []ReservedPorts {
	return []ReservedPorts{
		{First: 22, Last: 22, For: "SSH"},
		{First: 179, Last: 179, For: "BGP"},
		{First: 2379, Last: 2381, For: "etcd"},
		{First: 6443, Last: 6443, For: "the API server"},
		{First: 10248, Last: 10260, For: "Kubernetes itself"},
		// Of the agents also what they serve to their own machine.
		{First: HeartbeatPort, Last: VIPHeartbeatPort + 1, For: "the node agents"},
		{First: 3784, Last: 3784, Protocol: corev1.ProtocolUDP, For: "BFD"},
		{First: 30000, Last: 32767, For: "NodePorts"},
	}
}

// Has reports whether a port is among them.
func (r ReservedPorts) Has(number int32, protocol corev1.Protocol) bool {
	return number >= r.First && number <= r.Last && (r.Protocol == "" || r.Protocol == protocol)
}
