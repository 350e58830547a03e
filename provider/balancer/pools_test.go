package balancer

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/controlplane"
)

func TestReadPools(t *testing.T) {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1"},
		Spec:       corev1.NodeSpec{PodCIDRs: []string{"10.244.0.0/24"}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: "192.0.2.4"}, {Type: corev1.NodeHostName, Address: "n1"},
		}},
	}
	cidr := &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"},
		Spec:       networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/12"}},
	}
	older := addressPool("zz-older", "203.0.113.0/25")
	for _, tt := range []struct {
		name   string
		ranges []string
		want   string // in the problem
	}{
		{"fine", []string{"192.0.2.8/29", "2001:db8::1"}, ""},
		{"beside the Node", []string{"192.0.2.4/30"}, ""}, // its first address is left out
		{"the Node's address", []string{"192.0.2.1-192.0.2.9"}, ""},
		{"pods", []string{"10.244.0.77"}, ""},
		{"cluster IPs", []string{"10.100.0.0/24"}, "10.96.0.0/12 is ServiceCIDR/kubernetes"},
		{"another pool", []string{"203.0.113.100-203.0.113.200"}, "older AddressPool/zz-older"},
		{"no address", []string{"192.0.2"}, "192.0.2"},
		{"backwards", []string{"192.0.2.9-192.0.2.1"}, "192.0.2.9-192.0.2.1"},
		{"two families", []string{"192.0.2.9-2001:db8::1"}, "192.0.2.9-2001:db8::1"},
		{"a zone", []string{"fe80::1%eth0"}, "zone"},
		{"too long", []string{"192.0.2.0/33"}, "192.0.2.0/33"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			young := addressPool("young", tt.ranges...)
			young.CreationTimestamp = metav1.NewTime(start.Add(time.Hour))
			for _, p := range allocator.ReadPools([]*v1alpha1.AddressPool{young, older}, allocator.HostsOf([]*corev1.Node{node}, nil), []*networkingv1.ServiceCIDR{cidr}, controlplane.Addresses{}, nil) {
				got := ""
				if p.Problem != nil {
					got = p.Problem.Error()
				}
				switch {
				case p.Name == "zz-older" && got != "":
					t.Errorf("the older pool suffers from the younger one: %s", got)
				case p.Name == "young" && ((got == "") != (tt.want == "") || !strings.Contains(got, tt.want)):
					t.Errorf("got %q, want %q", got, tt.want)
				}
			}
		})
	}
}

// What one kubelet may write costs a pool an address of each family at most, and never the pool.
func TestReadPools_OneKubelet(t *testing.T) {
	named := func(addresses ...string) func(*corev1.Node) {
		return func(n *corev1.Node) {
			for _, a := range addresses {
				n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
			}
		}
	}
	ofPods := func(ranges ...string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Spec.PodCIDRs = ranges }
	}
	for _, tt := range []struct {
		name  string
		first string // the range of the control plane's pods
		write func(*corev1.Node)
		want  string // what is left
	}{
		{"its own address", "", named("198.18.0.7"), "[192.0.2.8-192.0.2.11 2001:db8::8-2001:db8::b]"},
		{
			"every address of the pool", "", named("192.0.2.8", "2001:db8::8", "192.0.2.9", "192.0.2.10", "192.0.2.11", "2001:db8::9"),
			"[192.0.2.9-192.0.2.11 2001:db8::9-2001:db8::b]",
		},
		{"external addresses", "", func(n *corev1.Node) {
			n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeExternalIP, Address: "192.0.2.8"}}
		}, "[192.0.2.8-192.0.2.11 2001:db8::8-2001:db8::b]"},
		{"pods, where nobody gives ranges", "", ofPods("192.0.2.0/24"), "[192.0.2.8-192.0.2.11 2001:db8::8-2001:db8::b]"},
		{"pods, of another size", "10.244.0.0/24", ofPods("192.0.0.0/16"), "[192.0.2.8-192.0.2.11 2001:db8::8-2001:db8::b]"},
		{"pods, where Nodes are", "10.244.0.0/24", ofPods("192.0.2.0/24"), "[192.0.2.8-192.0.2.11 2001:db8::8-2001:db8::b]"},
		{"pods, as they are given", "192.0.3.0/29", ofPods("192.0.2.8/29"), "[2001:db8::8-2001:db8::b]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cp := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cp", Labels: map[string]string{v1alpha1.ControlPlaneLabel: ""}}}
			cp.Spec.PodCIDRs = []string{tt.first}
			named("192.0.2.2")(cp)
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "older than the pool"}}
			tt.write(node)
			pool := addressPool("lan", "192.0.2.8-192.0.2.11", "2001:db8::8-2001:db8::b")
			pools := allocator.ReadPools([]*v1alpha1.AddressPool{pool}, allocator.HostsOf([]*corev1.Node{node, cp}, nil), nil, controlplane.Addresses{}, nil)
			if got := fmt.Sprint(pools[0].Free.Ranges()); got != tt.want || pools[0].Problem != nil {
				t.Errorf("left: %s, want %s; problem %v", got, tt.want, pools[0].Problem)
			}
		})
	}
}

// A router's address is not given.
func TestReadPools_Routers(t *testing.T) {
	agents := []*v1alpha1.NodeAgent{{
		ObjectMeta: metav1.ObjectMeta{Name: "n1"},
		Status:     v1alpha1.NodeAgentStatus{Gateways: []string{"192.0.2.1", "192.0.2.2", "fe80::1", "2001:db8::1"}},
	}}
	peers := []*v1alpha1.BGPPeer{{ObjectMeta: metav1.ObjectMeta{Name: "tor"}, Spec: v1alpha1.BGPPeerSpec{Address: "192.0.2.3"}}}
	p := allocator.ReadPools([]*v1alpha1.AddressPool{addressPool("lan", "192.0.2.1-192.0.2.4")}, nil, nil, controlplane.Addresses{}, allocator.RoutersOf(peers, agents))[0]
	if got := fmt.Sprint(p.Free.Ranges()); got != "[192.0.2.2-192.0.2.2 192.0.2.4-192.0.2.4]" {
		t.Errorf("left: %s", got)
	}
	if want := "192.0.2.1 is a gateway of Node/n1; 192.0.2.3 is BGPPeer/tor"; p.Except() != want {
		t.Errorf("said: %s, want %s", p.Except(), want)
	}
}

// An address that two pools have is counted once, where it comes from.
func TestCount_Overlapping(t *testing.T) {
	older, young := addressPool("older", "192.0.2.0/28"), addressPool("young", "192.0.2.0/29")
	young.CreationTimestamp = metav1.NewTime(start.Add(time.Hour))
	young.Spec.Priority = 1
	w := newWorld(young, older)
	for i := range 2 {
		w.add(fmt.Sprint(i), annotated(v1alpha1.AddressesAnnotation, fmt.Sprintf("192.0.2.%d", i+1)))
	}
	w.pass()
	delete(w.services, types.NamespacedName{Namespace: "default", Name: "1"})
	s := w.snapshot()
	p := allocator.Allocate(s)
	for _, pool := range s.Pools {
		got := poolStatus(pool, p, s.Pools, "", w.now)
		want := v1alpha1.AddressPoolStatus{Available: "0"}
		if pool.Name == "older" {
			want = v1alpha1.AddressPoolStatus{Assigned: 1, Quarantined: 1, Available: "12"}
		}
		got.Conditions = nil
		if diff := cmp.Diff(want, *got); diff != "" {
			t.Errorf("AddressPool/%s (-want +got):\n%s", pool.Name, diff)
		}
	}
}

// The level of an address is that of its pool when it was given. Peers that come and go change nothing: a pool that
// names another level does.
func TestLevel(t *testing.T) {
	w := newWorld(addressPool("lan", "192.0.2.0/24"))
	w.pools[0].Spec.Level = v1alpha1.LevelAuto
	first := w.add("first")
	expect := func(when string, s *corev1.Service, want v1alpha1.Level) {
		t.Helper()
		p := w.pass()
		if got := p.Claims[netip.MustParseAddr(p.of(s))].Level; got != want {
			t.Errorf("%s: Service %s is at level %s, want %s", when, s.Name, got, want)
		}
	}
	expect("no peer", first, v1alpha1.LevelL2)
	w.peers = true
	expect("the first peer", first, v1alpha1.LevelL2)
	second := w.add("second")
	expect("with a peer", second, v1alpha1.LevelBGP)
	w.peers = false
	expect("the peer has gone", second, v1alpha1.LevelBGP)
	w.pools[0].Spec.Level = v1alpha1.LevelBGP
	expect("the pool says so", first, v1alpha1.LevelBGP)
	w.pools[0].Spec.Level = v1alpha1.LevelL2
	expect("the pool says so", second, v1alpha1.LevelL2)
	w.objects[w.pass().of(second)].Annotations[v1alpha1.ClaimLevelAnnotation] = ""
	w.pools[0].Spec.Level = v1alpha1.LevelAuto
	w.peers = true
	expect("it is lost", second, v1alpha1.LevelBGP)
	expect("the pool says nothing any more", first, v1alpha1.LevelL2)
}

// One Node, the control plane and a range of pods cost a pool their addresses, and nothing else. What was given stays.
func TestPools_AddressesOfOthers(t *testing.T) {
	w := newWorld(addressPool("lan", "192.0.2.0/29"))
	has := w.add("has", annotated(v1alpha1.AddressesAnnotation, "192.0.2.4"))
	w.pass()
	w.setNodes("192.0.2.4", "192.0.2.5")
	for i, node := range w.nodes {
		node.Name, node.CreationTimestamp = fmt.Sprint("n", i), metav1.NewTime(start.Add(time.Hour))
		node.Spec.PodCIDRs = []string{"192.0.2.0/24"} // registered after the pool was made
	}
	vip := netip.MustParseAddr("192.0.2.6")
	w.plane.Endpoints = map[netip.Addr]bool{vip: true}
	asksVIP := w.add("vip", annotated(v1alpha1.AddressesAnnotation, "192.0.2.6"))
	asksNode := w.add("node", annotated(v1alpha1.AddressesAnnotation, "192.0.2.5"))
	any := []*corev1.Service{w.add("a"), w.add("b"), w.add("c"), w.add("d")}
	p := w.pass()
	if got := p.of(has); got != "192.0.2.4" {
		t.Errorf("a Service has %q of what it had", got)
	}
	for s, want := range map[*corev1.Service]string{asksVIP: "AddressInUse", asksNode: "AddressInUse"} {
		if got := p.of(s) + p.reason(s); got != want {
			t.Errorf("Service %s gets %s, want %s", s.Name, got, want)
		}
	}
	for i, s := range any {
		if got := p.of(s); (got != "") != (i < 3) || got == "192.0.2.5" || got == "192.0.2.6" {
			t.Errorf("Service %s gets %q", s.Name, got)
		}
	}
	pools := w.snapshot().Pools
	c := poolStatus(pools[0], p.Plan, pools, "", w.now)
	if c.Available != "0" || c.Conditions[0].Status != metav1.ConditionTrue || c.Conditions[0].Reason != overlapReason {
		t.Errorf("got status %+v", c)
	}
	for _, text := range []string{"192.0.2.6 is the control plane's address", "192.0.2.5 is the InternalIP of Node/n1"} {
		if !strings.Contains(c.Conditions[0].Message, text) {
			t.Errorf("%q does not say %q", c.Conditions[0].Message, text)
		}
	}
}

// A Service that had the control plane's address before it became that loses it, and its status.
func TestPools_ControlPlaneTakesItsAddress(t *testing.T) {
	w := newWorld(addressPool("lan", "192.0.2.1", "192.0.2.2"))
	w.add("thief", annotated(v1alpha1.AddressesAnnotation, "192.0.2.2"))
	w.told("192.0.2.2")
	w.told("192.0.2.2")
	if got := w.has("thief"); got != "192.0.2.2" {
		t.Fatalf("it has %q", got)
	}
	w.plane.Endpoints = map[netip.Addr]bool{netip.MustParseAddr("192.0.2.2"): true}
	w.told("192.0.2.2")
	if got := w.has("thief"); got != "" || len(w.objects) != 0 {
		t.Errorf("it is published with %q, claims %v", got, w.objects)
	}
}
