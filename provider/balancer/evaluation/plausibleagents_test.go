package evaluation

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// site has a control plane and three workers, each with an agent that reports the Node's address and the gateway 192.0.2.1.
func site() (nodes []*corev1.Node, agents []*v1alpha1.NodeAgent) {
	for i, name := range []string{"cp", "first", "second", "third"} {
		address := "192.0.2.1" + string(rune('0'+i))
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(start.Add(time.Duration(i) * time.Hour))}}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
		if i == 0 {
			n.Labels = map[string]string{v1alpha1.ControlPlaneLabel: ""}
		}
		agent := &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1alpha1.NodeAgentStatus{
			Interfaces: []v1alpha1.AgentInterface{{Name: "eth0", Addresses: []string{address + "/24"}}}, Gateways: []string{"192.0.2.1"},
		}}
		nodes, agents = append(nodes, n), append(agents, agent)
	}
	return nodes, agents
}

// What one agent, or one kubelet, says alone takes no address from an older Node, and gives its own Node none.
func TestPlausible_OneLiar(t *testing.T) {
	gateways := func(agents []*v1alpha1.NodeAgent, i int, address string) {
		agents[i].Status.Gateways = []string{address}
	}
	internal := func(nodes []*corev1.Node, i int, address string) { nodes[i].Status.Addresses[0].Address = address }
	for _, tt := range []struct {
		name string
		lie  func([]*corev1.Node, []*v1alpha1.NodeAgent)
		want map[string]string // that differ
	}{
		{"none", func([]*corev1.Node, []*v1alpha1.NodeAgent) {}, nil},
		{
			"an agent reports an older Node as its gateway",
			func(_ []*corev1.Node, a []*v1alpha1.NodeAgent) { gateways(a, 3, "192.0.2.11") }, nil,
		},
		{
			"an agent reports a younger Node as its gateway",
			func(_ []*corev1.Node, a []*v1alpha1.NodeAgent) { gateways(a, 1, "192.0.2.13") },
			map[string]string{"third": ""},
		},
		{"the control plane's agent does", func(_ []*corev1.Node, a []*v1alpha1.NodeAgent) { gateways(a, 0, "192.0.2.11") }, map[string]string{"first": ""}},
		{"two younger agents do", func(_ []*corev1.Node, a []*v1alpha1.NodeAgent) {
			gateways(a, 2, "192.0.2.11")
			gateways(a, 3, "192.0.2.11")
		}, map[string]string{"first": ""}},
		{
			"an agent reports its own Node", func(_ []*corev1.Node, a []*v1alpha1.NodeAgent) { gateways(a, 1, "192.0.2.11") }, nil,
		},
		{"a kubelet names a free address", func(n []*corev1.Node, _ []*v1alpha1.NodeAgent) { internal(n, 1, "192.0.2.77") }, map[string]string{"first": ""}},
		{"a kubelet names the gateway", func(n []*corev1.Node, a []*v1alpha1.NodeAgent) {
			internal(n, 1, "192.0.2.1")
			a[1].Status.Interfaces[0].Addresses = append(a[1].Status.Interfaces[0].Addresses, "192.0.2.1/24")
		}, map[string]string{"first": ""}},
		{"a Node without an agent", func(n []*corev1.Node, a []*v1alpha1.NodeAgent) {
			internal(n, 1, "192.0.2.77")
			a[1].Name = "gone"
		}, map[string]string{"first": "192.0.2.77"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			nodes, agents := site()
			tt.lie(nodes, agents)
			want := map[string]string{"cp": "192.0.2.10", "first": "192.0.2.11", "second": "192.0.2.12", "third": "192.0.2.13"}
			maps.Copy(want, tt.want)
			m := &Machines{agents: agents, Routers: allocator.RoutersOf(nil, agents)}
			m.Plausible(allocator.HostsOf(nodes, nil), nil, nil, nil)
			got := map[string]string{}
			for _, n := range m.nodes {
				got[n.Name] = Join(addressesOf(n, false))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Two racks have a network each. A Node keeps its address however long the only other one of its rack is off: its agent was the only one
// that reports the network beside the Node's own. A kubelet gets no address of a third network by that.
func TestPlausible_NeighbourIsOff(t *testing.T) {
	nodes, agents := site()
	for i, address := range []string{"198.51.100.10", "192.0.2.11", "192.0.2.12", "198.51.100.13"} {
		nodes[i].Status.Addresses[0].Address = address
		agents[i].Status.Interfaces[0].Addresses = []string{address + "/24"}
		agents[i].Status.Gateways = nil
	}
	alive := objects.Liveness{}
	addresses := func(now time.Time) map[string]string {
		for i, agent := range agents {
			if agent.Name != "second" {
				agents[i] = agent.DeepCopy()
				agents[i].Status.RenewTime = metav1.NewMicroTime(now)
			}
		}
		hosts := allocator.HostsOf(nodes, nil)
		m := NewMachines(hosts, ReadReports(agents, nil, alive, now, nil).Lately, nil)
		m.Reported = agents
		m.Plausible(hosts, nil, nil, nil)
		got := map[string]string{}
		for _, n := range m.nodes {
			got[n.Name] = Join(addressesOf(n, false))
		}
		return got
	}
	want := map[string]string{"cp": "198.51.100.10", "first": "192.0.2.11", "second": "192.0.2.12", "third": "198.51.100.13"}
	for _, off := range []time.Duration{0, listeningTime - time.Minute, listeningTime, 30 * 24 * time.Hour} {
		if diff := cmp.Diff(want, addresses(start.Add(off))); diff != "" {
			t.Errorf("second is off for %s: -want +got:\n%s", off, diff)
		}
	}
	nodes[1].Status.Addresses[0].Address = "203.0.113.7"
	agents[1].Status.Interfaces[0].Addresses = nil
	if got := addresses(start.Add(31 * 24 * time.Hour))["first"]; got != "" {
		t.Errorf("a kubelet names %s, which is in no Node's network", got)
	}
}
