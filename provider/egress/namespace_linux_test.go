package egress

import (
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/ccmadm/ccmadm/manifests/manifeststest"
	"github.com/ccmadm/ccmadm/provider/netfilter"
)

// machine is a network namespace.
type machine struct {
	*Kernel
	t testing.TB
}

// newMachine makes one, until the end of the test, with lo up, that forwards packets.
func newMachine(t testing.TB) *machine {
	t.Helper()
	manifeststest.NeedRoot(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = before.Close() }()
	namespace, err := netns.New()
	if err != nil {
		t.Fatalf("make a network namespace: %v", err)
	}
	if err := netns.Set(before); err != nil {
		t.Fatal(err)
	}
	kernel, err := OpenKernel(namespace)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		kernel.Close()
		_ = namespace.Close() // the last one who knows it: its interfaces go with it
	})
	m := &machine{Kernel: kernel, t: t}
	m.up("lo")
	m.inside(func() {
		for _, name := range []string{"ipv4/ip_forward", "ipv6/conf/all/forwarding"} {
			if err := os.WriteFile("/proc/sys/net/"+name, []byte("1"), 0o644); err != nil {
				t.Error(err)
			}
		}
	})
	return m
}

// inside calls f on a thread of the namespace.
func (m *machine) inside(f func()) {
	m.t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := netns.Get()
	if err != nil {
		m.t.Fatal(err)
	}
	defer func() { _ = before.Close() }()
	if err := netns.Set(m.namespace); err != nil {
		m.t.Fatal(err)
	}
	defer func() {
		if err := netns.Set(before); err != nil {
			panic(err) // this thread must not go on as it is
		}
	}()
	f()
}

// connect makes a cable between two machines.
func (m *machine) connect(name string, other *machine, otherName string) {
	m.t.Helper()
	cable := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: otherName, PeerNamespace: netlink.NsFd(other.namespace),
	}
	if err := m.handle.LinkAdd(cable); err != nil {
		m.t.Fatalf("add interface %s: %v", name, err)
	}
	m.up(name)
	other.up(otherName)
}

func (m *machine) link(name string) netlink.Link {
	m.t.Helper()
	link, err := m.handle.LinkByName(name)
	if err != nil {
		m.t.Fatalf("find interface %s: %v", name, err)
	}
	return link
}

func (m *machine) up(name string) {
	m.t.Helper()
	if err := m.handle.LinkSetUp(m.link(name)); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) address(name string, prefixes ...string) {
	m.t.Helper()
	for _, p := range prefixes {
		prefix := netip.MustParsePrefix(p)
		err := m.handle.AddrAdd(m.link(name), &netlink.Addr{
			IPNet: &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())},
			Flags: unix.IFA_F_NODAD,
		})
		if err != nil {
			m.t.Fatalf("add address %s to %s: %v", p, name, err)
		}
	}
}

func (m *machine) route(destination, via string) {
	m.t.Helper()
	prefix := netip.MustParsePrefix(destination)
	err := m.handle.RouteAdd(&netlink.Route{
		Dst: &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())},
		Gw:  netip.MustParseAddr(via).AsSlice(),
	})
	if err != nil {
		m.t.Fatalf("add route to %s: %v", destination, err)
	}
}

// blackhole is a route that leads nowhere, as a summary of private ranges does.
func (m *machine) blackhole(destination string) {
	m.t.Helper()
	prefix := netip.MustParsePrefix(destination)
	err := m.handle.RouteAdd(&netlink.Route{
		Dst:  &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())},
		Type: unix.RTN_BLACKHOLE,
	})
	if err != nil {
		m.t.Fatalf("add route to %s: %v", destination, err)
	}
}

// neighbor is what gratuitous ARP and neighbour advertisements would say.
func (m *machine) neighbor(address netip.Addr, at net.HardwareAddr) {
	m.t.Helper()
	err := m.handle.NeighSet(&netlink.Neigh{
		LinkIndex: m.link("eth0").Attrs().Index, State: netlink.NUD_PERMANENT, IP: address.AsSlice(), HardwareAddr: at,
	})
	if err != nil {
		m.t.Fatalf("set neighbour %s: %v", address, err)
	}
}

// masquerade does what a network add-on does: what leaves the cluster has the address of the Node.
func (m *machine) masquerade(pods ...string) {
	m.t.Helper()
	conn, err := netfilter.Open(m.namespace)
	if err != nil {
		m.t.Fatal(err)
	}
	table := netfilter.Replaced(conn, netfilter.Inet("add-on"))
	chain := conn.AddChain(&nftables.Chain{
		Name: "postrouting", Table: table, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource,
	})
	for i, f := range netfilter.Families() {
		set := &nftables.Set{Table: table, Name: f.Name, KeyType: f.KeyType, Interval: true}
		if err := netfilter.AddSet(conn, set, netfilter.Ranges([]netip.Prefix{netip.MustParsePrefix(pods[i])})); err != nil {
			m.t.Fatal(err)
		}
		conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: slices.Concat(f.Packets(), []expr.Any{
			f.LoadSource(1), &expr.Lookup{SourceRegister: 1, SetName: set.Name, SetID: set.ID},
			f.LoadDestination(1), &expr.Lookup{SourceRegister: 1, SetName: set.Name, SetID: set.ID, Invert: true},
			&expr.Masq{},
		})})
	}
	if err := conn.Flush(); err != nil {
		m.t.Fatal(err)
	}
}
