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
