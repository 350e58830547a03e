package egress

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// A pod's packets leave with an address only where its Service asks for it, and the pod is where its address says.
func TestNewPlan(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(*Inputs)
		want map[string]string // address by pod
	}{
		{"both families", func(*Inputs) {}, map[string]string{
			"10.244.0.2": service4, "10.244.1.2": service4, "fd00:10:244::2": service6, "fd00:10:244:1::2": service6,
		}},
		{"no label", func(in *Inputs) { in.Services["shop/web"].Labels = nil }, nil},
		{"another value", func(in *Inputs) { in.Services["shop/web"].Labels[v1alpha1.EgressLabel] = "yes" }, nil},
		{"no address", func(in *Inputs) { in.Addresses = nil }, nil},
		{"of one family", func(in *Inputs) { in.Addresses = in.Addresses[:1] }, map[string]string{
			"10.244.0.2": service4, "10.244.1.2": service4,
		}},
		{"EndpointSlice of another namespace", func(in *Inputs) {
			in.Slices = []*discoveryv1.EndpointSlice{slice("other", "web", "n0", "10.244.0.2")}
		}, nil},
		{"pod with the network of its Node", func(in *Inputs) {
			in.Slices = []*discoveryv1.EndpointSlice{slice("shop", "web", "n0", "192.0.2.10")}
		}, nil},
		{"API server", func(in *Inputs) {
			in.Servers = []netip.Addr{netip.MustParseAddr("10.244.0.2")}
			in.Slices = []*discoveryv1.EndpointSlice{slice("shop", "web", "n0", "10.244.0.2")}
		}, nil},
		{"load balancer of API servers", func(in *Inputs) {
			in.Endpoints = []netip.Addr{netip.MustParseAddr("10.244.0.2")}
			in.Slices = []*discoveryv1.EndpointSlice{slice("shop", "web", "n0", "10.244.0.2")}
		}, nil},
		{"pod of another Node's range", func(in *Inputs) {
			in.OwnRanges = true
			in.Slices = []*discoveryv1.EndpointSlice{slice("shop", "web", "n1", "10.244.2.2")}
		}, nil},
		{"pod of another Node's range, with a network add-on that does not use it", func(in *Inputs) {
			in.Slices = []*discoveryv1.EndpointSlice{slice("shop", "web", "n1", "10.244.2.2")}
		}, map[string]string{"10.244.2.2": service4}},
		{"pod whose address another Node reports as its own", func(in *Inputs) {
			in.Nodes[2].Status.Addresses = append(in.Nodes[2].Status.Addresses,
				corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "10.244.1.2"})
			in.Slices = []*discoveryv1.EndpointSlice{slice("shop", "web", "n1", "10.244.1.2")}
		}, map[string]string{"10.244.1.2": service4}},
		{"pod of a Node that is gone", func(in *Inputs) {
			in.Slices = []*discoveryv1.EndpointSlice{slice("shop", "web", "n9", "10.244.1.2")}
		}, nil},
		{"pod of no Node's range", func(in *Inputs) {
			in.Slices = []*discoveryv1.EndpointSlice{slice("shop", "web", "n0", "10.9.9.9")}
		}, map[string]string{"10.9.9.9": service4}},
		{"no pod", func(in *Inputs) {
			in.Slices = []*discoveryv1.EndpointSlice{slice("shop", "web", "n0", "shop.example.com", "")}
		}, nil},
		{"pod of an older Service, too", func(in *Inputs) {
			in.Services["shop/web"].CreationTimestamp = metav1.NewTime(created)
			asks(in, "older", "192.0.2.51", -1, "n1", "10.244.1.2")
		}, map[string]string{
			"10.244.0.2": service4, "10.244.1.2": "192.0.2.51", "fd00:10:244::2": service6, "fd00:10:244:1::2": service6,
		}},
		{"pod of a younger Service, too", func(in *Inputs) {
			in.Services["shop/web"].CreationTimestamp = metav1.NewTime(created)
			asks(in, "younger", "192.0.2.51", 1, "n1", "10.244.1.2")
		}, map[string]string{
			"10.244.0.2": service4, "10.244.1.2": service4, "fd00:10:244::2": service6, "fd00:10:244:1::2": service6,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := inputs()
			in.Node = "n0"
			tt.edit(&in)
			got := map[string]string{}
			for _, p := range NewPlan(in, func(netip.Addr) bool { return false }).Pods {
				got[p.IP.String()] = p.Address.String()
				if here := p.IP.String() == "10.244.0.2" || p.IP.String() == "fd00:10:244::2" || p.IP.String() == "10.9.9.9"; p.Here != here {
					t.Errorf("%s is here: %t, want %t", p.IP, p.Here, here)
				}
			}
			for ip, address := range tt.want {
				if got[ip] != address {
					t.Errorf("pod %s leaves with %q, want %s", ip, got[ip], address)
				}
			}
			if len(got) != len(tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// A kubelet may report any address of its Node: only one in a network of this machine is left alone.
func TestInputs_Cluster(t *testing.T) {
	in := inputs()
	in.Node = "n0"
	in.Nodes[2].Status.Addresses = append(in.Nodes[2].Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: far4})
	in.Servers, in.Endpoints = []netip.Addr{netip.MustParseAddr("198.51.100.1")}, []netip.Addr{netip.MustParseAddr("198.51.100.2")}
	got := map[netip.Prefix]bool{}
	for _, p := range in.cluster(in.podRanges(), []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}) {
		got[p] = true
	}
	for text, want := range map[string]bool{
		"10.244.2.0/24": true, "192.0.2.11/32": true, "198.51.100.1/32": true, "198.51.100.2/32": true, "fd00:10:244:1::/64": true,
		far4 + "/32": false, near4 + "/32": false,
	} {
		if got[netip.MustParsePrefix(text)] != want {
			t.Errorf("%s is left alone: %t, want %t", text, !want, want)
		}
	}
}

// Of an address that endpoints of two Nodes have, this Node knows best, then the one that sends its packets here, then the one with the range.
func TestNewPlan_TwoNodes(t *testing.T) {
	const liar = "192.0.2.51"
	for _, tt := range []struct {
		name  string
		node  string
		ip    string
		owned string
		want  string
		here  bool
		edit  func(*Inputs)
	}{
		{name: "pod of this Node", node: "n1", ip: "10.9.9.9", owned: liar, want: service4, here: true},
		{name: "pod of another Node, whose packets come here", node: "n0", ip: "10.9.9.9", owned: service4, want: service4},
		{name: "pod in the range of its Node", node: "n0", ip: "10.244.1.9", want: service4},
		{name: "both come here, and it is in the range of its Node", node: "n0", ip: "10.244.1.9", owned: service4 + liar, want: service4},
		{name: "both come here, and nothing else is known", node: "n0", ip: "10.9.9.9", owned: service4 + liar, want: liar},
		{name: "nothing is known", node: "n0", ip: "10.9.9.9", want: liar},
		{name: "its Node has it in a younger Service, too", node: "n0", ip: "10.9.9.9", owned: "192.0.2.52", want: liar, edit: func(in *Inputs) {
			asks(in, "youngest", "192.0.2.52", 2, "n1", "10.9.9.9")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := inputs()
			in.Node, in.Slices = tt.node, []*discoveryv1.EndpointSlice{slice("shop", "web", "n1", tt.ip)}
			in.Services["shop/web"].CreationTimestamp = metav1.NewTime(created.Add(time.Hour))
			asks(&in, "liar", liar, 0, "n2", tt.ip) // the oldest one
			if tt.edit != nil {
				tt.edit(&in)
			}
			pods := NewPlan(in, func(a netip.Addr) bool { return strings.Contains(tt.owned, a.String()) }).Pods
			if len(pods) != 1 || pods[0].Address.String() != tt.want || pods[0].Here != tt.here {
				t.Errorf("got %v, want one pod that leaves with %s and is here: %t", pods, tt.want, tt.here)
			}
		})
	}
}

// created is when the oldest Service was.
var created = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// asks adds a Service with an address and one endpoint.
func asks(in *Inputs, name, address string, hours int, node, ip string) {
	in.Services["shop/"+name] = &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, Labels: map[string]string{v1alpha1.EgressLabel: "true"},
		CreationTimestamp: metav1.NewTime(created.Add(time.Duration(hours) * time.Hour)),
	}}
	in.Addresses = append(in.Addresses, Address{
		Addr: netip.MustParseAddr(address), Services: []types.NamespacedName{{Namespace: "shop", Name: name}}, Interface: "eth0",
	})
	in.Slices = append(in.Slices, slice("shop", name, node, ip))
}
