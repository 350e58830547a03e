package egress

import (
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// The kubelet of n2 makes a pod, for which any Service with the label can be found, and says that it has the address of a pod or of the machine
// of n1, which are of no Service: nothing changes for these, whichever Node owns the address.
func TestEgress_HostileKubelet(t *testing.T) {
	for _, tt := range []struct {
		name, says string
		from       func(n1 *member) *machine
	}{
		{"a pod's address", "10.244.1.2", func(n1 *member) *machine { return n1.pod }},
		{"the machine's address", "192.0.2.11", func(n1 *member) *machine { return n1.machine }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster(t)
			c.in.Slices = []*discoveryv1.EndpointSlice{slice("shop", "web", "n2", tt.says)}
			for _, owner := range []int{0, 1} {
				c.own(owner)
				if got := c.seen(tt.from(c.nodes[1]), c.outside, far4, 20*time.Second); got != "192.0.2.11" {
					t.Errorf("n%d owns the address: the packet came from %q, want 192.0.2.11", owner, got)
				}
			}
		})
	}
}

// What a machine knows of an address, by its routes and interfaces.
func TestSurroundings_Contradicts(t *testing.T) {
	m, far := newMachine(t), newMachine(t)
	for name, plug := range map[string]struct {
		address string
		port    string // of a bridge
	}{
		"eth0": {"192.0.2.10/24", ""}, "cali1": {"169.254.1.1/32", ""}, "in-pod": {"", "cni0"}, "in-weave": {"", "weave"},
	} {
		m.Connect(name, far.Machine, "far-"+name)
		if plug.address != "" {
			m.Address(name, plug.address)
		}
		if plug.port != "" {
			m.bridge(plug.port, m.Link(name))
		}
	}
	m.route("0.0.0.0/0", "192.0.2.254")
	m.Address("cni0", "10.244.3.1/24")
	inside := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "weave-out"}, PeerName: "datapath"} // both ends are the machine's
	if err := m.handle.LinkAdd(inside); err != nil {
		t.Fatal(err)
	}
	m.bridge("weave", m.Link("weave-out"))
	m.Address("weave", "10.32.0.1/12")
	m.onLink("10.244.1.7/32", "cali1")
	m.onLink("192.0.2.70/32", "cali1")
	m.route("10.0.0.0/8", "192.0.2.254") // by the router, too
	m.route("10.245.0.0/24", "192.0.2.254")
	m.route("10.244.3.128/25", "192.0.2.11") // a part of the bridge's network is behind another Node
	m.onLink("10.244.3.200/32", "cali1")
	in := inputs()
	for _, reported := range []string{"192.0.2.70", "192.0.2.71", "192.0.2.254"} { // addresses of pods and the router's, by a kubelet
		in.Nodes[2].Status.Addresses = append(in.Nodes[2].Status.Addresses,
			corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: reported})
	}
	around, err := m.surroundings(in)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"10.0.0.0/8": false, "10.245.0.0/24": false, "10.244.3.128/25": true} {
		if got := slices.Contains(around.pods, netip.MustParsePrefix(text)); got != want {
			t.Errorf("the route to %s is one within the cluster: %t, want %t", text, got, want)
		}
	}
	for _, tt := range []struct {
		ip   string
		here bool
		want bool
	}{
		{"192.0.2.10", true, true},     // the machine's own
		{"10.244.3.1", false, true},    // the same, in the network of its pods
		{"192.0.2.12", false, true},    // another Node's, in the machine's network
		{"192.0.2.70", true, false},    // a pod here, which another Node reports as its own
		{"192.0.2.70", false, true},    // and not elsewhere
		{"192.0.2.71", false, false},   // a pod elsewhere, which another Node reports beside its own
		{"192.0.2.77", false, false},   // no Node's
		{"10.244.1.7", false, true},    // a pod here, by a route of its own
		{"10.244.1.7", true, false},    // and its Node says so
		{"10.244.1.8", false, false},   // no route
		{"10.244.3.5", false, true},    // a pod here, by a bridge
		{"10.244.3.130", false, false}, // by a route to another Node
		{"10.244.3.200", false, true},  // but for one
		{"10.32.0.9", false, false},    // by a bridge that leads to other Nodes
		{"203.0.113.9", false, false},  // by the default route
	} {
		if got := around.contradicts(Pod{IP: netip.MustParseAddr(tt.ip), Here: tt.here}); got != tt.want {
			t.Errorf("%s, said to be here: %t: contradicted %t, want %t", tt.ip, tt.here, got, tt.want)
		}
	}
}

// A Node is the default router of this machine: its pods are within the cluster only if it is a control plane, whether its API server runs
// or not. A kubelet can report any other router as its own, also one that balances the load of API servers.
func TestSurroundings_NodeIsRouter(t *testing.T) {
	m, far := newMachine(t), newMachine(t)
	m.Connect("eth0", far.Machine, "far")
	m.Address("eth0", "192.0.2.10/24")
	m.route("0.0.0.0/0", "192.0.2.11")
	m.route("10.244.192.0/26", "192.0.2.11") // of its pods, by a network add-on that does not use spec.podCIDRs
	m.route("10.244.0.0/16", "192.0.2.12")   // a summary, by another Node
	router := []netip.Addr{netip.MustParseAddr("192.0.2.11")}
	label := func(n *corev1.Node, key string) { n.Labels = map[string]string{key: ""} }
	for _, tt := range []struct {
		name string
		edit func(*Inputs)
		want bool
	}{
		{"a worker", func(*Inputs) {}, false},
		{"a machine with an API server", func(in *Inputs) { in.Servers = router }, true},
		{"a load balancer of API servers, that a kubelet reports", func(in *Inputs) { in.Endpoints = router }, false},
		{"a control plane whose API server does not run", func(in *Inputs) { label(in.Nodes[1], v1alpha1.ControlPlaneLabel) }, true},
		{"a worker with a label of its kubelet", func(in *Inputs) { label(in.Nodes[1], "node.kubernetes.io/control-plane") }, false},
		{"a worker while another Node is a control plane", func(in *Inputs) { label(in.Nodes[2], v1alpha1.ControlPlaneLabel) }, false},
		{"a machine with an API server that is no Node", func(in *Inputs) { in.Servers, in.Nodes = router, in.Nodes[2:] }, false},
	} {
		in := inputs()
		tt.edit(&in)
		around, err := m.surroundings(in)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"10.244.192.0/26", "10.244.0.0/16"} {
			if got := slices.Contains(around.pods, netip.MustParsePrefix(text)); got != tt.want {
				t.Errorf("%s: the route to %s is one within the cluster: %t, want %t", tt.name, text, got, tt.want)
			}
		}
	}
}

// bridge makes a link the port of a bridge, which it may be the first of.
func (m *machine) bridge(name string, port netlink.Link) {
	m.t.Helper()
	if _, err := m.handle.LinkByName(name); err != nil {
		if err := m.handle.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}); err != nil {
			m.t.Fatal(err)
		}
		m.Up(name)
	}
	if err := m.handle.LinkSetMaster(port, m.Link(name)); err != nil {
		m.t.Fatal(err)
	}
}

// onLink is a route by an interface, without a gateway.
func (m *machine) onLink(destination, name string) {
	m.t.Helper()
	prefix := netip.MustParsePrefix(destination)
	err := m.handle.RouteAdd(&netlink.Route{
		Dst:       &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())},
		LinkIndex: m.Link(name).Attrs().Index, Scope: netlink.SCOPE_LINK,
	})
	if err != nil {
		m.t.Fatalf("add route to %s: %v", destination, err)
	}
}
