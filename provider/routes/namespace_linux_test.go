package routes

import (
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ccmadm/ccmadm/manifests/manifeststest"
	"github.com/ccmadm/ccmadm/provider/netfilter/netnstest"
)

// machine is a network namespace.
type machine struct {
	*Kernel
	*netnstest.Machine
	t testing.TB
}

// newMachine makes one, until the end of the test.
func newMachine(t testing.TB) *machine {
	t.Helper()
	manifeststest.NeedRoot(t)
	m := netnstest.New(t)
	kernel, err := OpenKernel(m.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kernel.Close)
	return &machine{kernel, m, t}
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
		Destination: netip.MustParsePrefix(destination), Link: m.Link(name).Attrs().Index, Metric: metric, Protocol: protocol,
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
		if time.Since(start) > time.Minute {
			t.Fatalf("not within a minute: %s", what)
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
