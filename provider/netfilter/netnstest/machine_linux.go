// Package netnstest makes network namespaces for tests, joined by cables.
//
// Start at [New], as root: a caller skips or fails without. A machine and its interfaces are gone at the end of the test.
package netnstest

import (
	"net"
	"net/netip"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Machine is a network namespace.
type Machine struct {
	Namespace netns.NsHandle

	t      testing.TB
	handle *netlink.Handle
}

// New makes one, until the end of the test, with lo up.
func New(t testing.TB) *Machine {
	t.Helper()
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
	handle, err := netlink.NewHandleAt(namespace, unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		handle.Close()
		_ = namespace.Close() // the last one who knows it: its interfaces go with it
	})
	m := &Machine{Namespace: namespace, t: t, handle: handle}
	m.Up("lo")
	return m
}

// Inside calls f on a thread of the namespace, where sockets and sysctls are the machine's.
func (m *Machine) Inside(f func()) {
	m.t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := netns.Get()
	if err != nil {
		m.t.Fatal(err)
	}
	defer func() { _ = before.Close() }()
	if err := netns.Set(m.Namespace); err != nil {
		m.t.Fatal(err)
	}
	defer func() {
		if err := netns.Set(before); err != nil {
			panic(err) // this thread must not go on as it is
		}
	}()
	f()
}

// Connect makes a cable between two machines; the names are the interfaces' on either side.
func (m *Machine) Connect(name string, other *Machine, otherName string) {
	m.t.Helper()
	cable := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: otherName, PeerNamespace: netlink.NsFd(other.Namespace),
	}
	if err := m.handle.LinkAdd(cable); err != nil {
		m.t.Fatalf("add interface %s: %v", name, err)
	}
	m.Up(name)
	other.Up(otherName)
}

// Link is an interface of the machine.
func (m *Machine) Link(name string) netlink.Link {
	m.t.Helper()
	link, err := m.handle.LinkByName(name)
	if err != nil {
		m.t.Fatalf("find interface %s: %v", name, err)
	}
	return link
}

// Up switches an interface on.
func (m *Machine) Up(name string) {
	m.t.Helper()
	if err := m.handle.LinkSetUp(m.Link(name)); err != nil {
		m.t.Fatal(err)
	}
}

// Address gives an interface addresses with the length of their network, which are used at once.
func (m *Machine) Address(name string, prefixes ...string) {
	m.t.Helper()
	for _, p := range prefixes {
		prefix := netip.MustParsePrefix(p)
		err := m.handle.AddrAdd(m.Link(name), &netlink.Addr{
			IPNet: &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())},
			Flags: unix.IFA_F_NODAD,
		})
		if err != nil {
			m.t.Fatalf("add address %s to %s: %v", p, name, err)
		}
	}
}
