package evaluation

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

// readyNodes are count Nodes, each with an address of both families.
func readyNodes(count int) []*corev1.Node {
	var nodes []*corev1.Node
	for i := range count {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i), UID: types.UID(fmt.Sprint("uid-", i))}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		n.Status.Addresses = []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.1.%d.%d", i/200, i%200+1)},
			{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("fd00::%x", i+1)},
		}
		nodes = append(nodes, n)
	}
	return nodes
}

func nodeIPService(name string, published []netip.Addr) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	for _, a := range published {
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: a.String()})
	}
	return s
}

func publishedOn(t *testing.T, nodes []*corev1.Node, s *corev1.Service) []netip.Addr {
	t.Helper()
	list, _, problem := NewMachines(allocator.HostsOf(nodes, nil), nil, nil).nodeAddresses(s)
	if problem != nil {
		t.Fatal(problem)
	}
	return list
}

// A Node that comes or goes changes the Services that have it, and no others; each Service has at most eight Nodes' addresses of a family.
func TestNodeAddresses_FewOfManyNodes(t *testing.T) {
	nodes, services := readyNodes(300), 200
	published, used := map[string][]netip.Addr{}, map[netip.Addr]int{}
	for i := range services {
		name := fmt.Sprint("web-", i)
		list := publishedOn(t, nodes, nodeIPService(name, nil))
		if len(list) != 2*maxNodeAddresses || !list[0].Is4() || !list[maxNodeAddresses].Is6() {
			t.Fatalf("%s has %s, want %d addresses of each family", name, Join(list), maxNodeAddresses)
		}
		if again := publishedOn(t, nodes, nodeIPService(name, list)); !slices.Equal(list, again) {
			t.Fatalf("%s had %s, and has %s without a change of Nodes", name, Join(list), Join(again))
		}
		for _, a := range list[:maxNodeAddresses] {
			used[a]++
		}
		published[name] = list
	}
	if len(used) < 250 {
		t.Errorf("%d Services use %d of 300 Nodes, want nearly all", services, len(used))
	}

	gone := netip.MustParseAddr(nodes[7].Status.Addresses[0].Address)
	fewer, more := slices.Delete(slices.Clone(nodes), 7, 8), readyNodes(301)
	for name, list := range published {
		after := publishedOn(t, fewer, nodeIPService(name, list))
		kept := 0
		for _, a := range list {
			if slices.Contains(after, a) {
				kept++
			}
		}
		had := slices.Contains(list, gone)
		if !had && !slices.Equal(list, after) || len(after) != len(list) || had && kept < len(list)-2 {
			t.Errorf("%s had %s, has %s since Node n7 is gone", name, Join(list), Join(after))
		}
		if after := publishedOn(t, more, nodeIPService(name, list)); !slices.Equal(list, after) {
			t.Errorf("%s had %s, has %s since another Node came", name, Join(list), Join(after))
		}
	}
}

// Services of an older release have the addresses of all Nodes: eight of these stay. A Node with many addresses has one place until each
// other Node has one.
func TestNodeAddresses_FromAllToEight(t *testing.T) {
	nodes := readyNodes(20)
	var all []netip.Addr
	for _, n := range nodes {
		all = append(all, addressesOf(n, false)...)
	}
	list := publishedOn(t, nodes, nodeIPService("web", all))
	if len(list) != 2*maxNodeAddresses {
		t.Errorf("%d addresses, want %d of each family", len(list), maxNodeAddresses)
	}
	two := readyNodes(20)
	for i, n := range two {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.7.0.%d", i+1)})
	}
	var both []netip.Addr
	for _, n := range two[:4] {
		both = append(both, addressesOf(n, false)...)
	}
	for _, a := range publishedOn(t, two, nodeIPService("web", both)) {
		if netip.MustParsePrefix("10.7.0.0/16").Contains(a) {
			t.Errorf("%s is a second address of one of four Nodes that the Service had, while sixteen others have none", a)
		}
	}
	few := readyNodes(9)
	for i := range 30 {
		few[0].Status.Addresses = append(few[0].Status.Addresses,
			corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.9.0.%d", i+1)})
	}
	for _, a := range publishedOn(t, few, nodeIPService("web", nil)) {
		if netip.MustParsePrefix("10.9.0.0/16").Contains(a) {
			t.Errorf("%s is a further address of a Node, while other Nodes have none", a)
		}
	}
}

// A Node that loses condition Ready for a moment keeps its addresses, one that is about to go does not.
func TestNodeAddresses_LatelyReady(t *testing.T) {
	nodes := readyNodes(2)
	nodes[1].Status.Conditions[0].Status = corev1.ConditionFalse
	for _, tt := range []struct {
		name   string
		lately bool
		taint  string
		want   int
	}{
		{"not Ready", false, "", 1},
		{"Ready a moment ago", true, "", 2},
		{"shut down", true, corev1.TaintNodeOutOfService, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			node := nodes[1].DeepCopy()
			if tt.taint != "" {
				node.Spec.Taints = []corev1.Taint{{Key: tt.taint}}
			}
			m := NewMachines(allocator.HostsOf([]*corev1.Node{nodes[0], node}, nil), nil, nil)
			m.Lately = map[types.UID]bool{node.UID: tt.lately}
			if list, _, _ := m.nodeAddresses(nodeIPService("web", nil)); len(list) != 2*tt.want {
				t.Errorf("%s, want those of %d Nodes", Join(list), tt.want)
			}
		})
	}
}

// An agent reports a block where many ports are open: none of it is a Service's on that Node, and what is no block is none.
func TestListeningOf_Blocks(t *testing.T) {
	agent := &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	agent.Status.Listening = []string{"udp/16384-17407", "udp/53", "tcp/1-65535", "tcp/100-1123", "tcp/8080", "tcp/-5", "tcp/70000", "x/0-1023"}
	ports := listeningOf([]*v1alpha1.NodeAgent{agent})["a"]
	if len(ports) != 1024+2 {
		t.Errorf("%d ports, want those of a block and two", len(ports))
	}
	for p, want := range map[port]bool{
		{16384, corev1.ProtocolUDP}: true, {17407, corev1.ProtocolUDP}: true, {17408, corev1.ProtocolUDP}: false, {53, corev1.ProtocolUDP}: true,
		{16384, corev1.ProtocolTCP}: false, {443, corev1.ProtocolTCP}: false, {8080, corev1.ProtocolTCP}: true,
	} {
		if ports[p] != want {
			t.Errorf("%d/%s: %t, want %t", p.number, p.protocol, ports[p], want)
		}
	}
}
