package routes

import (
	"maps"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/google/nftables"
	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/provider/netfilter"
)

// Packets of a pod keep their source on the way to a Node and to a pod of another one, and get the machine's beyond.
func TestKernel_Masquerade(t *testing.T) {
	pod, m, outside := newMachine(t), newMachine(t), newMachine(t)
	m.Connect("veth0", pod.Machine, "eth0")
	m.Connect("eth0", outside.Machine, "eth0")
	pod.Address("eth0", "10.244.0.2/24", "fd00:10:244::2/64")
	m.Address("veth0", "10.244.0.1/24", "fd00:10:244::1/64")
	m.Address("eth0", "192.0.2.1/24", "2001:db8::1/64")
	// One machine for all there is outside: another Node, a pod of it, and somebody who knows nothing of pods.
	outside.Address("eth0", "192.0.2.2/24", "2001:db8::2/64", "10.244.1.2/32", "192.0.2.77/32", "2001:db8::77/128")
	for _, r := range [][2]string{{"0.0.0.0/0", "10.244.0.1"}, {"::/0", "fd00:10:244::1"}} {
		pod.route(r[0], r[1])
	}
	for _, r := range [][2]string{{"10.244.0.0/24", "192.0.2.1"}, {"fd00:10:244::/64", "2001:db8::1"}} {
		outside.route(r[0], r[1])
	}
	m.route("10.244.1.0/24", "192.0.2.2")
	m.Inside(func() {
		for _, name := range []string{"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"} {
			writeSysctl(t, name, "1")
		}
	})
	own := []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24"), netip.MustParsePrefix("fd00:10:244::/64")}
	var cluster []netip.Prefix
	for _, p := range []string{
		"10.244.0.0/24", "10.244.1.0/24", "192.0.2.1/32", "192.0.2.2/32", "fd00:10:244::/64", "2001:db8::1/128", "2001:db8::2/128",
	} {
		cluster = append(cluster, netip.MustParsePrefix(p))
	}
	for range 2 { // the second time it takes the place of the first
		if err := m.masquerade(own, cluster); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ name, to, want string }{
		{"to a Node", "192.0.2.2", "10.244.0.2"},
		{"to a pod of another Node", "10.244.1.2", "10.244.0.2"},
		{"out of the cluster", "192.0.2.77", "192.0.2.1"},
		{"to a Node, by IPv6", "2001:db8::2", "fd00:10:244::2"},
		{"out of the cluster, by IPv6", "2001:db8::77", "2001:db8::1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := sourceSeen(t, pod, outside, tt.to); got != tt.want {
				t.Errorf("the packet came from %s, want %s", got, tt.want)
			}
		})
	}
}

// A cluster may have more ranges than one message of netlink has room for.
func TestKernel_MasqueradeMany(t *testing.T) {
	m := newMachine(t)
	var own, cluster []netip.Prefix
	for n := range 2000 {
		v4 := netip.AddrFrom4([4]byte{10, byte(n / 100), byte(2 * (n % 100)), 0}) // with a gap after each
		v6 := netip.AddrFrom16([16]byte{0: 0xfd, 4: byte(n / 100), 5: byte(2 * (n % 100))})
		cluster = append(cluster, netip.PrefixFrom(v4, 24), netip.PrefixFrom(v6, 48))
	}
	own = append(own, cluster[:2]...)
	if err := m.masquerade(own, cluster); err != nil {
		t.Fatal(err)
	}
	for _, f := range netfilter.Families() {
		got := m.ends(f)
		for _, p := range f.Of(append(multicast(), cluster...)) {
			if ends, there := got[p.Addr()]; !there || ends {
				t.Fatalf("set of %s: %s does not begin a range, among %d elements", f.Name, p.Addr(), len(got))
			}
			if end := netfilter.Last(p).Next(); end.IsValid() && !got[end] {
				t.Fatalf("set of %s: no range ends at %s, among %d elements", f.Name, end, len(got))
			}
		}
	}
}

// A kubelet that gives its Node the address of a stranger does not keep other machines' pods from that.
func TestKernel_MasqueradeStranger(t *testing.T) {
	r := newRunning(t)
	r.route("::/0", "2001:db8::fe")
	liar := node("liar", []string{"8.8.8.8", "192.0.2.5", "2001:4860:4860::8888"})
	agent := &Agent{Node: "a", Kernel: r.Kernel, CNIDir: t.TempDir()}
	intents, _ := Intents("a", []*corev1.Node{nodeA, nodeC}, nil)
	if err := agent.connectPods(time.Now(), nodeA, []*corev1.Node{nodeA, nodeC, liar}, intents); err != nil {
		t.Fatal(err)
	}
	got := map[netip.Addr]bool{}
	for _, f := range netfilter.Families() {
		maps.Copy(got, r.ends(f))
	}
	for text, want := range map[string]bool{
		"192.0.2.1": true, "192.0.2.3": true, "192.0.2.5": true, "2001:db8::3": true, "10.244.2.0": true,
		"8.8.8.8": false, "2001:4860:4860::8888": false,
	} {
		if ends, there := got[netip.MustParseAddr(text)]; (there && !ends) != want {
			t.Errorf("%s is left out of masquerading: got %t, want %t", text, !want, want)
		}
	}
}

// ends reads the set of a family: the addresses where a range begins, or with true, the ones after its last.
func (m *machine) ends(f netfilter.Family) map[netip.Addr]bool {
	m.t.Helper()
	conn, err := netfilter.Open(m.namespace)
	if err != nil {
		m.t.Fatal(err)
	}
	elements, err := conn.GetSetElements(&nftables.Set{Table: netfilter.Inet(masqueradeTable), Name: "cluster-" + f.Name})
	if err != nil {
		m.t.Fatal(err)
	}
	list := map[netip.Addr]bool{}
	for _, e := range elements {
		address, _ := netip.AddrFromSlice(e.Key)
		list[address] = e.IntervalEnd
	}
	return list
}

// sourceSeen sends a datagram from one machine to another, and returns where it came from.
func sourceSeen(t *testing.T, from, to *machine, address string) string {
	t.Helper()
	var server net.PacketConn
	var client net.Conn
	var err error
	to.Inside(func() { server, err = net.ListenPacket("udp", net.JoinHostPort(address, "0")) })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	from.Inside(func() { client, err = net.Dial("udp", server.LocalAddr().String()) })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	if err := server.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	go func() { // more than one, as long as neighbours are not known
		for t.Context().Err() == nil {
			if _, err := client.Write([]byte("x")); err != nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	_, source, err := server.ReadFrom(make([]byte, 1))
	if err != nil {
		t.Fatal(err)
	}
	host, _, err := net.SplitHostPort(source.String())
	if err != nil {
		t.Fatal(err)
	}
	return host
}
