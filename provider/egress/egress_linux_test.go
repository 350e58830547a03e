package egress

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Packets leave with the address of the Service, whichever Node a pod is on, and are otherwise as before.
func TestEgress(t *testing.T) {
	c := newCluster(t)
	c.own(0)
	for _, tt := range []struct {
		name     string
		from     *machine
		to       *machine
		address  string
		expected string
	}{
		{"from the owner, beyond the router", c.nodes[0].pod, c.outside, far4, service4},
		{"from the owner, near", c.nodes[0].pod, c.outside, near4, service4},
		{"from another Node, beyond the router", c.nodes[1].pod, c.outside, far4, service4},
		{"from another Node, near", c.nodes[1].pod, c.outside, near4, service4},
		{"from another Node, by IPv6", c.nodes[1].pod, c.outside, far6, service6},
		{"from another Node, near, by IPv6", c.nodes[1].pod, c.outside, near6, service6},
		{"from the owner, by IPv6", c.nodes[0].pod, c.outside, far6, service6},
		{"pod of no Service", c.nodes[2].pod, c.outside, far4, "192.0.2.12"},
		{"pod of no Service, by IPv6", c.nodes[2].pod, c.outside, far6, "2001:db8::12"},
		{"to a pod", c.nodes[1].pod, c.nodes[2].pod, "10.244.2.2", "10.244.1.2"},
		{"to a pod of the owner", c.nodes[1].pod, c.nodes[0].pod, "10.244.0.2", "10.244.1.2"},
		{"from the owner to a pod", c.nodes[0].pod, c.nodes[1].pod, "10.244.1.2", "10.244.0.2"},
		{"to a Node", c.nodes[1].pod, c.nodes[2].machine, "192.0.2.12", "192.0.2.11"},
		{"from the owner to a Node", c.nodes[0].pod, c.nodes[2].machine, "192.0.2.12", "192.0.2.10"},
		{"to its own Node", c.nodes[1].pod, c.nodes[1].machine, "10.244.1.1", "10.244.1.2"},
		{"from a Node", c.nodes[1].machine, c.outside, far4, "192.0.2.11"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := c.seen(tt.from, tt.to, tt.address, 20*time.Second); got != tt.expected {
				t.Errorf("the packet came from %q, want %s", got, tt.expected)
			}
		})
	}
}

// Without an owner, packets go nowhere. When no Service asks for it any more, they leave as before, and nothing is left in the kernel.
func TestEgress_NoOwner(t *testing.T) {
	c := newCluster(t)
	c.own(-1)
	for i := range 2 {
		if got := c.seen(c.nodes[i].pod, c.outside, far4, 500*time.Millisecond); got != "" {
			t.Errorf("pod of n%d: a packet came from %s, want none", i, got)
		}
	}
	c.own(1)
	for i := range 2 {
		if got := c.seen(c.nodes[i].pod, c.outside, far4, 20*time.Second); got != service4 {
			t.Errorf("pod of n%d: the packet came from %q, want %s", i, got, service4)
		}
	}
	delete(c.in.Services["shop/web"].Labels, v1alpha1.EgressLabel)
	for i := range 3 {
		c.look(i)
		lines, err := c.nodes[i].Leftovers()
		if err != nil || len(lines) > 0 {
			t.Errorf("n%d has %q, %v; want nothing", i, lines, err)
		}
	}
	if got := c.seen(c.nodes[0].pod, c.outside, far4, 20*time.Second); got != "192.0.2.10" {
		t.Errorf("the packet came from %q, want the Node's address", got)
	}
}

// A Node's own route to a destination outside of the cluster changes nothing, whichever Node has it.
func TestEgress_OwnRoutes(t *testing.T) {
	c := newCluster(t)
	for i := range 2 {
		c.nodes[i].route(far4+"/32", "192.0.2.254")
		c.nodes[i].route("203.0.113.0/24", "192.0.2.254")
		c.nodes[i].route("128.0.0.0/1", "192.0.2.254")
		c.nodes[i].blackhole("203.0.0.0/8")
		c.own(0)
		for j := range 2 {
			if got := c.seen(c.nodes[j].pod, c.outside, far4, 20*time.Second); got != service4 {
				t.Errorf("routes of n%d, pod of n%d: the packet came from %q, want %s", i, j, got, service4)
			}
		}
	}
}

// Connections that have begun while another program had removed the tables, or while their destination was within the cluster, leave as all
// others afterwards.
func TestEgress_BegunOtherwise(t *testing.T) {
	for _, tt := range []struct {
		name          string
		before, after func(c *cluster, node int)
	}{
		{"without tables", func(c *cluster, node int) {
			if err := c.nodes[node].removeTables(); err != nil {
				t.Fatal(err)
			}
		}, func(*cluster, int) {}},
		{"to an API server that is none any more", func(c *cluster, node int) {
			c.in.Servers = []netip.Addr{netip.MustParseAddr(far4)}
			c.look(node)
		}, func(c *cluster, _ int) { c.in.Servers = nil }},
	} {
		for node := range 2 {
			t.Run(fmt.Sprintf("%s, n%d", tt.name, node), func(t *testing.T) {
				c := newCluster(t)
				c.own(0)
				tt.before(c, node)
				server, client := c.dial(c.nodes[node].pod, far4)
				if got, want := received(server, client), fmt.Sprintf("192.0.2.1%d", node); got != want {
					t.Fatalf("the packet came from %q, want its Node's address %s", got, want)
				}
				tt.after(c, node)
				c.look(node)
				if got := received(server, client); got != service4 {
					t.Errorf("afterwards the packet came from %q, want %s", got, service4)
				}
			})
		}
	}
}

// A Node that may own the address and cannot translate: no packets are sent to the owner.
func TestEgress_Unfit(t *testing.T) {
	c := newCluster(t)
	c.own(0)
	for i := range c.in.Addresses {
		c.in.Addresses[i].Unfit = true
	}
	c.look(1)
	if got := c.seen(c.nodes[1].pod, c.outside, far4, 300*time.Millisecond); got != "" {
		t.Errorf("a packet came from %s, want none", got)
	}
}

// Connections that go on when no Service asks for it any more leave as all others do.
func TestEgress_SwitchedOff(t *testing.T) {
	for _, owner := range []int{0, 1} {
		c := newCluster(t)
		c.own(owner)
		server, client := c.dial(c.nodes[1].pod, far4)
		if got := received(server, client); got != service4 {
			t.Fatalf("owner n%d: the packet came from %q, want %s", owner, got, service4)
		}
		delete(c.in.Services["shop/web"].Labels, v1alpha1.EgressLabel)
		c.nodes[1].applied = nil // as a process that has just started
		for i := range 3 {
			c.look(i)
		}
		if got := received(server, client); got != "192.0.2.11" {
			t.Errorf("owner n%d: afterwards the packet came from %q, want the Node's address", owner, got)
		}
	}
}

// An answer that arrives at the new owner before the pod's next packet does not take the port of the pod's connection.
func TestEgress_AnswerFirst(t *testing.T) {
	c := newCluster(t)
	c.own(2)
	var server net.PacketConn
	var client net.Conn
	var err error
	c.outside.Inside(func() { server, err = net.ListenPacket("udp", net.JoinHostPort(far4, "4000")) })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	pod := &net.UDPAddr{IP: net.ParseIP(service4), Port: 45000}
	for range 3 {
		if _, err := server.WriteTo([]byte("answer"), pod); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.nodes[1].pod.Inside(func() {
		client, err = net.DialUDP("udp", &net.UDPAddr{Port: pod.Port}, server.LocalAddr().(*net.UDPAddr))
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	for range 400 {
		_, _ = client.Write([]byte("x"))
		_ = server.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if _, source, err := server.ReadFrom(make([]byte, 8)); err == nil {
			if source.String() != pod.String() {
				t.Errorf("the packet came from %s, want %s", source, pod)
			}
			return
		}
	}
	t.Error("no packet arrived")
}

// A cluster may have more pods than one message of netlink has room for, and than the kernel's default for a transaction.
func TestEgress_Many(t *testing.T) {
	m := newMachine(t)
	s := state{}
	for i := range 10_000 {
		for _, p := range [][2]netip.Addr{
			{netip.AddrFrom4([4]byte{10, 244, byte(i >> 8), byte(i)}), netip.MustParseAddr(service4)},
			{netip.AddrFrom16([16]byte{0: 0xfd, 14: byte(i >> 8), 15: byte(i)}), netip.MustParseAddr(service6)},
		} {
			s.Pods = append(s.Pods, podState{Pod: Pod{IP: p[0], Address: p[1]}, Owned: true})
		}
	}
	start := time.Now()
	if err := m.apply(s); err != nil {
		t.Fatal(err)
	}
	t.Logf("20,000 addresses of pods took %s", time.Since(start))
	if pods, err := m.podsInTables(); err != nil || len(pods) != len(s.Pods) {
		t.Errorf("the table has %d addresses of pods, %v; want %d", len(pods), err, len(s.Pods))
	}
}

// What others remove is there again after the next look, and until then nothing leaves with another address.
func TestEgress_Removed(t *testing.T) {
	c := newCluster(t)
	c.own(0)
	n := c.nodes[1]
	for _, tt := range []struct {
		name   string
		remove func() error
	}{
		{"rules", func() error { return n.removeRulesOnly() }},
		{"routes", func() error { return n.removeRoutesOnly() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.remove(); err != nil {
				t.Fatal(err)
			}
			if got := c.seen(n.pod, c.outside, far4, 300*time.Millisecond); got != "" {
				t.Errorf("a packet came from %s, want none", got)
			}
			c.look(1)
			if got := c.seen(n.pod, c.outside, far4, 20*time.Second); got != service4 {
				t.Errorf("the packet came from %q, want %s", got, service4)
			}
		})
	}
}

func (k *Kernel) removeRulesOnly() error {
	rules, err := k.rules()
	for _, r := range rules {
		if err := k.handle.RuleDel(&r); err != nil {
			return err
		}
	}
	return err
}

func (k *Kernel) removeRoutesOnly() error {
	ways, err := k.ways()
	for _, w := range ways {
		if err := k.handle.RouteDel(&w.route); err != nil {
			return err
		}
	}
	return err
}

// A second agent on a machine finds what is there, and changes nothing.
func TestEgress_Again(t *testing.T) {
	c := newCluster(t)
	c.own(0)
	before, err := c.nodes[1].Leftovers()
	if err != nil || len(before) < 3 {
		t.Fatalf("it has %q, %v; want a table, rules and routes", before, err)
	}
	c.nodes[1].applied = nil // as the next process
	c.look(1)
	after, err := c.nodes[1].Leftovers()
	if err != nil || !slices.Equal(before, after) {
		t.Errorf("it has\n%s\nand after a restart\n%s, %v", strings.Join(before, "\n"), strings.Join(after, "\n"), err)
	}
}
