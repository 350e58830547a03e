package egress

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ccmadm/ccmadm/manifests/manifeststest"
	"github.com/ccmadm/ccmadm/provider/netfilter"
	"github.com/ccmadm/ccmadm/provider/netfilter/netnstest"
)

// machine is a network namespace.
type machine struct {
	*Kernel
	*netnstest.Machine
	t testing.TB
}

// newMachine makes one, until the end of the test, that forwards packets.
func newMachine(t testing.TB) *machine {
	t.Helper()
	manifeststest.NeedRoot(t)
	m := netnstest.New(t)
	kernel, err := OpenKernel(m.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kernel.Close)
	m.Inside(func() {
		for _, name := range []string{"ipv4/ip_forward", "ipv6/conf/all/forwarding"} {
			if err := os.WriteFile("/proc/sys/net/"+name, []byte("1"), 0o644); err != nil {
				t.Error(err)
			}
		}
	})
	return &machine{kernel, m, t}
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
		LinkIndex: m.Link("eth0").Attrs().Index, State: netlink.NUD_PERMANENT, IP: address.AsSlice(), HardwareAddr: at,
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
