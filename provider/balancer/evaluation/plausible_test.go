package evaluation

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/controlplane"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Addresses that kubelets write for their Nodes: none of somebody else's is published for a Service.
func TestPlausible(t *testing.T) {
	node := func(name string, age time.Duration, pods string, addresses ...string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(start.Add(-age))}}
		n.Spec.PodCIDRs = []string{pods, "no range"}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}}
		for _, a := range addresses {
			kind := corev1.NodeInternalIP
			if a, external := strings.CutPrefix(a, "external:"); external {
				n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: a})
				continue
			}
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: kind, Address: a})
		}
		return n
	}
	report := func(name string, addresses ...string) *v1alpha1.NodeAgent {
		return &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1alpha1.NodeAgentStatus{
			Interfaces: []v1alpha1.AgentInterface{{Name: "eth0", Addresses: addresses}},
		}}
	}
	honest := node("honest", time.Hour, "10.244.1.0/24", "192.0.2.11", "2001:db8::11")
	cp := node("cp", time.Second, "", "192.0.2.10")
	cp.Labels = map[string]string{v1alpha1.ControlPlaneLabel: ""}
	liar := func(addresses ...string) *corev1.Node {
		return node("liar", 30*time.Minute, "192.0.2.0/24", addresses...)
	}
	reports := []*v1alpha1.NodeAgent{
		report("honest", "192.0.2.11/24", "2001:db8::11/64", "10.244.1.1/24"), report("cp", "192.0.2.10/24"),
		report("liar", "0.0.0.0/0", "192.0.2.12/24"),
	}
	plane := controlplane.Addresses{
		Endpoints: map[netip.Addr]bool{netip.MustParseAddr("192.0.2.240"): true},
		Servers:   map[netip.Addr]bool{netip.MustParseAddr("192.0.2.10"): true, netip.MustParseAddr("192.0.2.9"): true},
	}
	cidrs := []*networkingv1.ServiceCIDR{{}}
	cidrs[0].Spec.CIDRs = []string{"10.96.0.0/12", "fd00:96::/112"}
	claims := []*allocator.Claim{{Address: netip.MustParseAddr("192.0.2.77")}}
	list := func(n *corev1.Node) []corev1.NodeAddress {
		if n.Name != "liar" {
			return nil
		}
		return []corev1.NodeAddress{{Type: corev1.NodeExternalIP, Address: "203.0.113.12"}}
	}
	for _, tt := range []struct {
		name     string
		nodes    []*corev1.Node
		reports  []*v1alpha1.NodeAgent
		listed   func(*corev1.Node) []corev1.NodeAddress
		networks []netip.Prefix
		want     map[string]string // IPs by Node
	}{
		{
			name: "all that can be tried", reports: reports,
			nodes: []*corev1.Node{liar("192.0.2.12", "10.96.0.1", "::ffff:10.96.0.2", "fd00:96::1", "192.0.2.77", "10.244.1.5"), honest, cp},
			want:  map[string]string{"liar": "192.0.2.12", "honest": "192.0.2.11,2001:db8::11", "cp": "192.0.2.10"},
		},
		{
			name: "no agent", nodes: []*corev1.Node{liar("192.0.2.12", "192.0.2.240", "external:203.0.113.7"), honest, cp},
			want: map[string]string{"liar": "192.0.2.12", "honest": "192.0.2.11,2001:db8::11", "cp": "192.0.2.10"},
		},
		{
			name: "networks of the configuration", networks: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/28")},
			nodes: []*corev1.Node{liar("192.0.2.12", "192.0.2.99", "203.0.113.7"), honest, cp},
			want:  map[string]string{"liar": "192.0.2.12", "honest": "192.0.2.11", "cp": "192.0.2.10"},
		},
		{
			name: "an inventory", listed: list, reports: reports,
			nodes: []*corev1.Node{liar("192.0.2.12", "192.0.2.11"), honest, cp},
			want:  map[string]string{"liar": "203.0.113.12", "honest": "192.0.2.11,2001:db8::11", "cp": "192.0.2.10"},
		},
		{
			name: "one Node, which has the API server", reports: reports[:1],
			nodes: []*corev1.Node{node("one", time.Hour, "", "192.0.2.10")}, want: map[string]string{"one": "192.0.2.10"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := map[string]string{}
			m := &Machines{agents: tt.reports, Plane: plane, Routers: allocator.RoutersOf(nil, tt.reports)}
			m.Plausible(allocator.HostsOf(tt.nodes, tt.listed), cidrs, claims, tt.networks)
			for _, n := range m.nodes {
				for _, ipv6 := range []bool{false, true} {
					if list := Join(addressesOf(n, ipv6)); list != "" {
						got[n.Name] = strings.TrimPrefix(got[n.Name]+","+list, ",")
					}
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Whatever address a kubelet names first, it has none that is somebody else's, and the others keep theirs: also where the
// kubelet's Node is older than theirs.
func TestPlausible_OthersAddresses(t *testing.T) {
	of := func(name string, age time.Duration, pods, address string) (*corev1.Node, *v1alpha1.NodeAgent) {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(start.Add(-age))}}
		n.Spec.PodCIDRs = []string{pods}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
		bridge, _ := strings.CutSuffix(pods, "0/24")
		return n, &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1alpha1.NodeAgentStatus{
			Interfaces: []v1alpha1.AgentInterface{
				{Name: "eth0", Addresses: []string{address + "/24"}}, {Name: "cni0", Addresses: []string{bridge + "1/24"}},
			},
			Gateways: []string{"192.0.2.1", "192.0.2.12"}, // of one family the first counts
		}}
	}
	plane := controlplane.Addresses{
		Endpoints: map[netip.Addr]bool{netip.MustParseAddr("192.0.2.240"): true},
		Servers:   map[netip.Addr]bool{netip.MustParseAddr("192.0.2.10"): true, netip.MustParseAddr("192.0.2.9"): true},
	}
	cidrs := []*networkingv1.ServiceCIDR{{}}
	cidrs[0].Spec.CIDRs = []string{"10.96.0.0/12", "fd00:96::/112"}
	claims := []*allocator.Claim{{Address: netip.MustParseAddr("192.0.2.77")}}
	peers := []*v1alpha1.BGPPeer{{Spec: v1alpha1.BGPPeerSpec{Address: "192.0.2.2"}}}
	for address, whose := range map[string]string{
		"192.0.2.240": "the control plane's", "192.0.2.9": "an API server's", "192.0.2.10": "a control plane's",
		"192.0.2.11": "an older Node's", "192.0.2.77": "a Service's", "192.0.2.1": "a gateway", "192.0.2.2": "a BGPPeer",
		"10.96.0.1": "a cluster IP", "::ffff:10.96.0.2": "a mapped cluster IP", "fd00:96::1": "a cluster IP of the other family",
		"10.244.1.5": "an older Node's pod", "10.244.3.5": "a younger Node's pod", "10.244.0.5": "a control plane's pod",
		"203.0.113.7": "somebody's in the world", "169.254.169.254": "metadata", "127.0.0.1": "loopback", "0.0.0.0": "none",
		"224.0.0.18": "a group's", "255.255.255.255": "everybody's", "::1": "loopback", "fe80::1": "link-local", "no address": "none",
	} {
		t.Run(whose+" "+address, func(t *testing.T) {
			cp, a := of("cp", time.Second, "10.244.0.0/24", "192.0.2.10")
			cp.Labels = map[string]string{v1alpha1.ControlPlaneLabel: ""}
			older, b := of("older", time.Hour, "10.244.1.0/24", "192.0.2.11")
			younger, c := of("younger", time.Minute, "10.244.3.0/24", "192.0.2.13")
			liar, d := of("liar", 30*time.Minute, "192.0.2.0/24", address)
			agents := []*v1alpha1.NodeAgent{a, b, c, d}
			m := &Machines{agents: agents, Plane: plane, Routers: allocator.RoutersOf(peers, agents)}
			m.Plausible(allocator.HostsOf([]*corev1.Node{liar, younger, older, cp}, nil), cidrs, claims, nil)
			want := map[string]string{"cp": "192.0.2.10", "older": "192.0.2.11", "younger": "192.0.2.13", "liar": ""}
			for _, n := range m.nodes {
				if got := Join(append(addressesOf(n, false), addressesOf(n, true)...)); got != want[n.Name] {
					t.Errorf("%s has %q, want %q", n.Name, got, want[n.Name])
				}
			}
		})
	}
}

// A kubelet names the address of a younger Node, and has it: nobody can tell whose it is. A port on which either of them
// listens is no Service's there, else a tenant would get what the younger Node's program is sent.
func TestPlausible_PortsOfAYoungerNode(t *testing.T) {
	var nodes []*corev1.Node
	for i, name := range []string{"liar", "younger", "third"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(start.Add(time.Duration(i) * time.Second))}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		address := []string{"198.18.0.2", "198.18.0.2", "198.18.0.3"}[i]
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
		nodes = append(nodes, n)
	}
	agents := []*v1alpha1.NodeAgent{{
		ObjectMeta: metav1.ObjectMeta{Name: "younger"}, Status: v1alpha1.NodeAgentStatus{Listening: []string{"tcp/9100"}},
	}}
	hosts := allocator.HostsOf(nodes, nil)
	m := NewMachines(hosts, agents, nil)
	m.Plausible(hosts, nil, nil, nil)
	for number, want := range map[int32]string{9100: "198.18.0.3", 80: "198.18.0.2,198.18.0.3"} {
		web := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: number, Protocol: corev1.ProtocolTCP}}}}
		if list, _, _ := m.nodeAddresses(web); Join(list) != want {
			t.Errorf("port %d: %s, want %s", number, Join(list), want)
		}
	}
}
