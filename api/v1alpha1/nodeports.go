package v1alpha1

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

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

// PortBlock is how many ports an entry FIRST-LAST of status.listening of a NodeAgent has, the first of which is a multiple of it. An agent
// writes blocks in place of the ports of a machine on which many are open: a media server opens and closes thousands, and each change
// would go to all agents.
const PortBlock = 1024

// PortBlockOf returns the block of a port, as it stands behind the protocol in status.listening.
func PortBlockOf(port int) string {
	first := port / PortBlock * PortBlock
	return fmt.Sprintf("%d-%d", first, first+PortBlock-1)
}

// ParsePorts returns the first and the last port of an entry of status.listening, PORT or a block; false: it is neither.
func ParsePorts(text string) (first, last int, ok bool) {
	begin, _, block := strings.Cut(text, "-")
	first, err := strconv.Atoi(begin)
	if err != nil || first < 0 || first > 65535 || block && text != PortBlockOf(first) {
		return 0, 0, false
	}
	if block {
		return first, first + PortBlock - 1, true
	}
	return first, first, true
}
