package routes

import (
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/ccmadm/ccmadm/manifests/manifeststest"
)

// machine is a network namespace.
type machine struct {
	*Kernel
	t testing.TB
}

// newMachine makes one, until the end of the test, with lo up.
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
	return m
}

// inside calls f on a thread of the namespace, where sockets and sysctls are the machine's.
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

// connect makes a cable between two machines; the names are the interfaces' on either side.
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

// route adds somebody else's route, without a gateway if via is empty.
func (m *machine) route(destination, via string) {
	m.t.Helper()
	if err := m.handle.RouteAdd(m.foreign(destination, via, unix.RTPROT_BOOT, 0, "eth0")); err != nil {
		m.t.Fatalf("add route to %s: %v", destination, err)
	}
}

func (m *machine) foreign(destination, via string, protocol, metric int, name string) *netlink.Route {
	m.t.Helper()
	r := route{
		Destination: netip.MustParsePrefix(destination), Link: m.link(name).Attrs().Index, Metric: metric, Protocol: protocol,
	}
	if via != "" {
		r.Via = netip.MustParseAddr(via)
	}
	return r.toKernel()
}

// pods returns the routes below 10.244.0.0/16 and fd00:10:244::/48, by destination.
func (m *machine) pods() []route {
	m.t.Helper()
	list, err := m.list()
	if err != nil {
		m.t.Fatal(err)
	}
	list = slices.DeleteFunc(list, func(r route) bool {
		return !netip.MustParsePrefix("10.244.0.0/16").Contains(r.Destination.Addr()) &&
			!netip.MustParsePrefix("fd00:10:244::/48").Contains(r.Destination.Addr())
	})
	slices.SortFunc(list, func(a, b route) int { return a.Destination.Compare(b.Destination) })
	return list
}

// eventually returns how long it took until check held.
func eventually(t testing.TB, what string, check func() bool) time.Duration {
	t.Helper()
	start := time.Now()
	for !check() {
		if time.Since(start) > 20*time.Second {
			t.Fatalf("not within 20 s: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
	return time.Since(start)
}

func writeSysctl(t testing.TB, name, value string) {
	t.Helper()
	if err := os.WriteFile("/proc/sys/"+name, []byte(value), 0o644); err != nil {
		t.Fatal(err)
	}
}
