package egress

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Addresses of the Service, and of machines outside: in the network of the Nodes, and beyond their router.
const (
	service4, service6 = "192.0.2.50", "2001:db8::50"
	near4, near6       = "192.0.2.100", "2001:db8::100"
	far4, far6         = "203.0.113.1", "2001:db8:f::1"
)

// cluster has three Nodes with a pod each, in one network with a router. Pods of the first two are of the Service.
type cluster struct {
	t       *testing.T
	nodes   []*member
	outside *machine
	in      Inputs
	owner   int // -1: none
	mu      sync.Mutex
}

type member struct {
	*machine
	pod   *machine
	agent *Agent
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	lan, outside := newMachine(t), newMachine(t)
	if err := lan.handle.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "lan"}}); err != nil {
		t.Fatal(err)
	}
	lan.Up("lan")
	plug := func(m *machine, port string) {
		lan.Connect(port, m.Machine, "eth0")
		if err := lan.handle.LinkSetMaster(lan.Link(port), lan.Link("lan")); err != nil {
			t.Fatal(err)
		}
	}
	plug(outside, "outside")
	outside.Address("eth0", "192.0.2.254/24", near4+"/24", "2001:db8::fe/64", near6+"/64")
	outside.Address("lo", far4+"/32", far6+"/128")
	c := &cluster{t: t, outside: outside, owner: -1}
	c.in = inputs()
	for i := range 3 {
		m := &member{machine: newMachine(t), pod: newMachine(t)}
		plug(m.machine, fmt.Sprintf("n%d", i))
		m.Address("eth0", fmt.Sprintf("192.0.2.1%d/24", i), fmt.Sprintf("2001:db8::1%d/64", i))
		m.route("0.0.0.0/0", "192.0.2.254")
		m.route("::/0", "2001:db8::fe")
		m.Connect("veth0", m.pod.Machine, "eth0")
		m.Address("veth0", fmt.Sprintf("10.244.%d.1/24", i), fmt.Sprintf("fd00:10:244:%d::1/64", i))
		m.pod.Address("eth0", fmt.Sprintf("10.244.%d.2/24", i), fmt.Sprintf("fd00:10:244:%d::2/64", i))
		m.pod.route("0.0.0.0/0", fmt.Sprintf("10.244.%d.1", i))
		m.pod.route("::/0", fmt.Sprintf("fd00:10:244:%d::1", i))
		for j := range 3 {
			if j != i {
				m.route(fmt.Sprintf("10.244.%d.0/24", j), fmt.Sprintf("192.0.2.1%d", j))
				m.route(fmt.Sprintf("fd00:10:244:%d::/64", j), fmt.Sprintf("2001:db8::1%d", j))
			}
		}
		m.masquerade("10.244.0.0/16", "fd00:10:244::/48")
		m.agent = NewAgent(m.Kernel, func(netip.Addr) bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.owner == i
		}, func() {})
		c.nodes = append(c.nodes, m)
	}
	return c
}

// inputs are three Nodes with a pod each, of which the first two are the Service's.
func inputs() Inputs {
	in := Inputs{Services: map[string]*corev1.Service{"shop/web": {ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web", Labels: map[string]string{v1alpha1.EgressLabel: "true"},
	}}}}
	for _, a := range []string{service4, service6} {
		in.Addresses = append(in.Addresses, Address{
			Addr: netip.MustParseAddr(a), Services: []types.NamespacedName{{Namespace: "shop", Name: "web"}}, Interface: "eth0",
		})
	}
	for i, ranges := range [][]string{
		{"10.244.0.0/24", "fd00:10:244::/64"}, {"10.244.1.0/24", "fd00:10:244:1::/64"}, {"10.244.2.0/24", "fd00:10:244:2::/64"},
	} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i)}, Spec: corev1.NodeSpec{PodCIDRs: ranges}}
		for _, text := range []string{fmt.Sprintf("192.0.2.1%d", i), fmt.Sprintf("2001:db8::1%d", i)} {
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: text})
		}
		in.Nodes = append(in.Nodes, n)
		if i == 2 {
			continue
		}
		for _, ip := range []string{fmt.Sprintf("10.244.%d.2", i), fmt.Sprintf("fd00:10:244:%d::2", i)} {
			in.Slices = append(in.Slices, slice("shop", "web", n.Name, ip))
		}
	}
	return in
}

func slice(namespace, service, node string, addresses ...string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		Endpoints:  []discoveryv1.Endpoint{{NodeName: &node, Addresses: addresses}},
	}
}

// own has a Node own the addresses; -1: no Node does. Machines learn it one after the other, in any order, as they do.
func (c *cluster) own(owner int) {
	c.mu.Lock()
	c.owner = owner
	c.mu.Unlock()
	steps := []func(){}
	for i, m := range c.nodes {
		steps = append(steps, func() { c.look(i) })
		if i != owner {
			steps = append(steps, func() { c.announce(m.machine, owner) })
		}
	}
	steps = append(steps, func() { c.announce(c.outside, owner) })
	rand.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	for _, step := range steps {
		step()
		time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
	}
}

func (c *cluster) announce(to *machine, owner int) {
	at := net.HardwareAddr{2, 0, 0, 0, 0, 0} // a machine that is off
	if owner >= 0 {
		at = c.nodes[owner].Link("eth0").Attrs().HardwareAddr
	}
	for _, a := range c.in.Addresses {
		to.neighbor(a.Addr, at)
	}
}

func (c *cluster) look(node int) {
	in := c.in
	in.Node = fmt.Sprintf("n%d", node)
	c.nodes[node].agent.inputs.Store(&in)
	c.nodes[node].agent.look()
	if failed := c.nodes[node].agent.failed; failed != "" {
		c.t.Errorf("n%d: %s", node, failed)
	}
}

// seen has a machine send until one packet arrives, and returns from where it came. Empty: within the time none did.
func (c *cluster) seen(from, to *machine, address string, within time.Duration) string {
	c.t.Helper()
	var server net.PacketConn
	var client net.Conn
	var err error
	to.Inside(func() { server, err = net.ListenPacket("udp", net.JoinHostPort(address, "0")) })
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	from.Inside(func() { client, err = net.Dial("udp", server.LocalAddr().String()) })
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	for end := time.Now().Add(within); time.Now().Before(end); {
		_, _ = client.Write([]byte("x")) // what comes back as an error of ICMP is tried again
		_ = server.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if _, source, err := server.ReadFrom(make([]byte, 1)); err == nil {
			host, _, _ := net.SplitHostPort(source.String())
			if _, err := server.WriteTo([]byte("y"), source); err != nil {
				c.t.Fatal(err)
			}
			_ = client.SetReadDeadline(time.Now().Add(time.Minute))
			if _, err := client.Read(make([]byte, 1)); err != nil {
				c.t.Errorf("from %s: the answer did not arrive: %v", host, err)
			}
			return host
		}
	}
	return ""
}

// dial opens a connection, in so far as UDP has any.
func (c *cluster) dial(from *machine, address string) (server net.PacketConn, client net.Conn) {
	c.t.Helper()
	var err error
	c.outside.Inside(func() { server, err = net.ListenPacket("udp", net.JoinHostPort(address, "0")) })
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = server.Close() })
	from.Inside(func() { client, err = net.Dial("udp", server.LocalAddr().String()) })
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = client.Close() })
	return server, client
}

// received is where a packet comes from that is sent until one arrives, of those sent from now on.
func received(server net.PacketConn, client net.Conn) string {
	text := fmt.Sprint(time.Now().UnixNano())
	for range 400 {
		_, _ = client.Write([]byte(text))
		_ = server.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		buffer := make([]byte, 64)
		if length, source, err := server.ReadFrom(buffer); err == nil && string(buffer[:length]) == text {
			host, _, _ := net.SplitHostPort(source.String())
			return host
		}
	}
	return ""
}
