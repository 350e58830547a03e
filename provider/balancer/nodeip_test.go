package balancer

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/balancer/evaluation"
)

// The ports of Nodes are taken from nobody: not from programs that listen there, nor from another Service.
func TestPorts(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: "198.18.0.1"},
	}}}
	agent := &v1alpha1.NodeAgent{
		ObjectMeta: metav1.ObjectMeta{Name: "n1"},
		Status:     v1alpha1.NodeAgentStatus{Listening: []string{"tcp/9100", "udp/53", "8443"}},
	}
	protocol := func(p corev1.Protocol) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.Ports[0].Protocol = p }
	}
	published := func(ip string) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip}} }
	}
	tenants := func(s *corev1.Service) { s.Namespace = "tenant" }
	for _, tt := range []struct {
		name    string
		changes []func(*corev1.Service)
		want    string // in the problem
	}{
		{"nobody's", []func(*corev1.Service){onPort(81)}, ""},
		{"SCTP on another's port of TCP", []func(*corev1.Service){protocol(corev1.ProtocolSCTP)}, ""},
		{"a Service's", nil, "is that of Service/default/older"},
		{"a program's", []func(*corev1.Service){onPort(9100)}, "a program on Node/n1 listens on port 9100/TCP"},
		{"a program's, as agents may say it, too", []func(*corev1.Service){onPort(8443)}, "listens on port 8443/TCP"},
		{"a program's, of UDP", []func(*corev1.Service){onPort(53), protocol(corev1.ProtocolUDP)}, "listens on port 53/UDP"},
		{"a program's of UDP, with TCP", []func(*corev1.Service){onPort(53)}, ""},
		{"the API server's", []func(*corev1.Service){onPort(6443)}, "port 6443 is reserved for the API server"},
		{
			"of the agents' heartbeats, which it has",
			[]func(*corev1.Service){onPort(v1alpha1.HeartbeatPort), protocol(corev1.ProtocolUDP), published("198.18.0.1")},
			"port 10391 is reserved for the node agents",
		},
		{
			"of the control plane's heartbeats",
			[]func(*corev1.Service){onPort(v1alpha1.VIPHeartbeatPort), protocol(corev1.ProtocolUDP)},
			"port 10393 is reserved for the node agents",
		},
		{
			"of BFD, by annotation",
			[]func(*corev1.Service){onPort(3784), protocol(corev1.ProtocolUDP), annotated(v1alpha1.PortsAnnotation, "any")},
			"",
		},
		{
			"SSH, by annotation of a tenant",
			[]func(*corev1.Service){onPort(22), annotated(v1alpha1.PortsAnnotation, "any"), tenants},
			"port 22 is reserved for SSH",
		},
		{
			"a program's, by annotation of a tenant",
			[]func(*corev1.Service){onPort(9100), annotated(v1alpha1.PortsAnnotation, "any"), tenants},
			"listens on port 9100/TCP",
		},
		{"of BFD", []func(*corev1.Service){onPort(3784), protocol(corev1.ProtocolUDP)}, "port 3784 is reserved for BFD"},
		{"of BFD, with TCP", []func(*corev1.Service){onPort(3784)}, ""},
		{"a program's, which began later", []func(*corev1.Service){onPort(9100), published("198.18.0.1")}, ""},
		{
			"a program's, from a pool's address",
			[]func(*corev1.Service){onPort(9100), published("192.0.2.50")},
			"listens on port 9100/TCP",
		},
		{"a program's, by annotation", []func(*corev1.Service){onPort(9100), annotated(v1alpha1.PortsAnnotation, "any")}, ""},
		{
			"a Service's, by annotation",
			[]func(*corev1.Service){annotated(v1alpha1.PortsAnnotation, "any")},
			"is that of Service/default/older",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			older, s := w.add("older"), w.add("asks", tt.changes...)
			m := evaluation.NewMachines([]*allocator.Host{{Node: node}}, []*v1alpha1.NodeAgent{agent}, nil)
			m.Namespaces = map[string]labels.Set{"default": {v1alpha1.PortsLabel: "allow"}, "tenant": {v1alpha1.PortsLabel: "any"}}
			problems := m.Ports([]*allocator.Assignment{{Service: older}, {Service: s}})
			got := ""
			if p := problems[allocator.NameOf(s)]; p != nil {
				got = p.Error()
			}
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if p := problems[allocator.NameOf(older)]; p != nil {
				t.Errorf("the older one suffers: %v", p)
			}
		})
	}
}

// What the agents say of a peer is in its status: first what keeps sessions down, else what will.
func TestPeerStatus(t *testing.T) {
	agent := func(name, state, message string) *v1alpha1.NodeAgent {
		return &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1alpha1.NodeAgentStatus{
			Sessions: []v1alpha1.BGPSession{{Peer: "tor", State: state, Message: message}},
		}}
	}
	for _, tt := range []struct {
		name   string
		agents []*v1alpha1.NodeAgent
		want   string
	}{
		{"no agent", nil, "False NoAgent: no node agent reports a session"},
		{"fine", []*v1alpha1.NodeAgent{agent("a", "Established", "")}, "True Established: every Node has a session"},
		{
			"as long as it lasts",
			[]*v1alpha1.NodeAgent{agent("b", "Established", "no Secret"), agent("a", "Established", "no Secret")},
			"True Established: Node/a: Established: no Secret",
		},
		{
			"one is down",
			[]*v1alpha1.NodeAgent{agent("a", "Established", "no Secret"), agent("b", "Idle", "refused")},
			"False PeerDown: Node/b: Idle: refused",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			peer := &v1alpha1.BGPPeer{ObjectMeta: metav1.ObjectMeta{Name: "tor"}}
			c := peerStatus(peer, tt.agents, start).Conditions[0]
			if got := string(c.Status) + " " + c.Reason + ": " + c.Message; got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// What one agent reports takes its Node out of the status, and no port from all Services: an agent may report any port.
func TestPorts_OneAgentTakesOutItsNode(t *testing.T) {
	w := newWorld()
	w.setNodes("198.18.0.1", "198.18.0.2")
	w.nodes[0].Name, w.nodes[1].Name = "n1", "n2"
	var every []string
	for number := 1; number <= 65535; number++ {
		every = append(every, fmt.Sprintf("tcp/%d", number))
	}
	report := func(name string, ports ...string) *v1alpha1.NodeAgent {
		return &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1alpha1.NodeAgentStatus{Listening: ports}}
	}
	w.add("before", onPort(81))
	w.told()
	for _, tt := range []struct {
		name   string
		agents []*v1alpha1.NodeAgent
		want   string
	}{
		{"one agent reports every port", []*v1alpha1.NodeAgent{report("n1", every...)}, "198.18.0.2"},
		{"a program listens on both", []*v1alpha1.NodeAgent{report("n1", "tcp/443"), report("n2", "tcp/443")}, ""},
		{"none listens", nil, "198.18.0.1,198.18.0.2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w.agents = tt.agents
			s := w.add("web", onPort(443))
			w.told()
			w.told() // what is published does not change what is
			if got := w.has("web"); got != tt.want {
				t.Errorf("has %q, want %q", got, tt.want)
			}
			if got := w.has("before"); got != "198.18.0.1,198.18.0.2" {
				t.Errorf("a Service that was published before has %q", got)
			}
			delete(w.services, allocator.NameOf(s))
		})
	}
}
