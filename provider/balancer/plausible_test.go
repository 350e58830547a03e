package balancer

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
)

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
		report("liar", "0.0.0.0/0"),
	}
	plane := controlPlane{
		endpoints: map[netip.Addr]bool{netip.MustParseAddr("192.0.2.240"): true},
		servers:   map[netip.Addr]bool{netip.MustParseAddr("192.0.2.10"): true, netip.MustParseAddr("192.0.2.9"): true},
	}
	cidrs := []*networkingv1.ServiceCIDR{{}}
	cidrs[0].Spec.CIDRs = []string{"10.96.0.0/12", "fd00:96::/112"}
	claims := []*claim{{address: netip.MustParseAddr("192.0.2.77")}}
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
			name: "others' addresses", reports: reports,
			nodes: []*corev1.Node{liar("192.0.2.240", "192.0.2.9", "192.0.2.10", "192.0.2.11", "203.0.113.7", "external:192.0.2.50"), honest, cp},
			want:  map[string]string{"honest": "192.0.2.11,2001:db8::11", "cp": "192.0.2.10"},
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
			b := &Balancer{Settings: Settings{Listed: tt.listed, NodeNetworks: tt.networks}}
			got := map[string]string{}
			for _, n := range b.plausible(tt.nodes, cidrs, claims, &machines{agents: tt.reports, plane: plane}) {
				for _, ipv6 := range []bool{false, true} {
					if list := join(addressesOf(n, ipv6)); list != "" {
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

// A cluster IP that a kubelet calls its own is no Service's address.
func TestCluster_NodeIPOfAClusterIP(t *testing.T) {
	c := newCluster(t)
	c.create("web")
	c.within(10*time.Second, "web", hasAddress("198.18.0.1"))
	lie := []byte(`{"status":{"addresses":[
		{"type":"InternalIP","address":"198.18.0.1"},{"type":"ExternalIP","address":"10.0.0.1"}]}}`)
	if _, err := c.client.CoreV1().Nodes().PatchStatus(t.Context(), "n1", lie); err != nil {
		t.Fatal(err)
	}
	c.node("n2", "198.18.0.2") // once its address is there, the other's was looked at
	c.within(10*time.Second, "web", hasAddress("198.18.0.1,198.18.0.2"))
}
