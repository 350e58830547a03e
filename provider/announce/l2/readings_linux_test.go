package l2

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
	"github.com/ccmadm/ccmadm/provider/announce/quorum"
)

// services gives a host an interface as kube-proxy's in mode ipvs, which is down and has many addresses, and returns them.
func (l *lan) services(host netns.NsHandle, n int) (*netlink.Handle, netlink.Link, []*netlink.Addr) {
	l.t.Helper()
	handle, err := netlink.NewHandleAt(host)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(handle.Close)
	link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "kube-ipvs0"}}
	if err := handle.LinkAdd(link); err != nil {
		l.t.Fatal(err)
	}
	var addresses []*netlink.Addr
	for i := range n {
		a := &netlink.Addr{IPNet: netlink.NewIPNet(net.IPv4(10, 96, byte(i>>8), byte(i)))}
		if err := handle.AddrAdd(link, a); err != nil {
			l.t.Fatal(err)
		}
		addresses = append(addresses, a)
	}
	return handle, link, addresses
}

// change removes and adds addresses without a pause until it is told to stop, and returns when it has.
func change(handle *netlink.Handle, link netlink.Link, addresses []*netlink.Addr, pause time.Duration) (stop func()) {
	ended, stopping := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-stopping:
				return
			case <-time.After(pause):
			}
			changed := addresses[i%len(addresses)]
			_ = handle.AddrDel(link, changed)
			_ = handle.AddrAdd(link, changed)
		}
	}()
	return func() { close(stopping); <-ended }
}

// While addresses change, the kernel's list lacks others, and the kernel says so.
func TestReadKernel_ChangesMeanwhile(t *testing.T) {
	l := newLAN(t)
	host := l.plug("a", 1)
	handle, link, addresses := l.services(host, 5000)
	stop := change(handle, link, addresses, 0)
	waitFor(t, 20*time.Second, func() bool {
		_, err := readKernel(host, listAddresses)
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
			t.Fatal(err)
		}
		return err != nil
	})
	if r, err := readKernel(host, listAddresses); r.partial != (err != nil) {
		t.Errorf("the reading is partial: %t, beside %v", r.partial, err)
	}
	stop()
	if r, err := readKernel(host, listAddresses); err != nil || r.partial || len(r.local) < len(addresses) {
		t.Errorf("afterwards there are %d addresses, %v; want %d", len(r.local), err, len(addresses))
	}
}

// An interface that comes or goes is noticed while each list of addresses is interrupted, and by an agent that starts meanwhile. One that is
// not in such a list stays.
func TestL2_InterfaceChangesWhileAddressesDo(t *testing.T) {
	a := newAgents(t, announce.Claim{Address: netip.MustParseAddr("10.8.0.100"), Probed: true})
	var lists atomic.Int64
	var lacks atomic.Bool
	l2 := New(Options{
		Node: "a", Key: bytes.Repeat([]byte{7}, 32), Port: v1alpha1.HeartbeatPort, Changed: func() {}, Namespace: a.hosts["a"],
		Log: logr.Discard(),
	})
	l2.addresses = func() ([]netlink.Addr, error) {
		found, err := listAddresses()
		if lists.Add(1); lacks.Load() {
			found = nil
		}
		return found, errors.Join(err, netlink.ErrDumpInterrupted)
	}
	a.run("a", l2)
	is := func(there bool) {
		t.Helper()
		began := time.Now()
		waitFor(t, within(5*time.Second), func() bool {
			status := v1alpha1.NodeAgentStatus{}
			l2.Report(&status)
			return there == slices.ContainsFunc(status.Interfaces, func(i v1alpha1.AgentInterface) bool {
				return i.Name == "lan-a" && slices.Contains(i.Addresses, "10.8.0.1/24")
			})
		})
		t.Logf("that the interface is there: %t, is known after %s", there, time.Since(began))
		if err := l2.Answerable(a.view.Claims[0].Address); (err == nil) != there {
			t.Errorf("the interface is there: %t, and what keeps the agent from answering is %v", there, err)
		}
	}
	is(true)
	before := lists.Load()
	lacks.Store(true)
	waitFor(t, within(5*time.Second), func() bool { return lists.Load() > before+2 })
	is(true)
	a.port("a", false)
	is(false)
	lacks.Store(false)
	a.port("a", true)
	is(true)
}

// An agent that starts while addresses change reports its interfaces, and the addresses for which its kernel answers, after the first list that
// is whole, and after some time without one.
func TestL2_FirstListIsPartial(t *testing.T) {
	host := newLAN(t).plug("a", 1)
	waitFor(t, 20*time.Second, func() bool { // it has a carrier by then
		r, err := readKernel(host, listAddresses)
		return err == nil && len(r.interfaces) > 0
	})
	for _, tt := range []struct {
		name     string
		partials int // before the list that is whole; tellPartial: there is none
	}{{"one partial list", 1}, {"no whole list", tellPartial}} {
		t.Run(tt.name, func(t *testing.T) {
			changes := 0
			l2 := New(Options{
				Node: "a", Key: bytes.Repeat([]byte{7}, 32), Port: v1alpha1.HeartbeatPort, Changed: func() { changes++ }, Namespace: host,
				Log: logr.Discard(),
			})
			reports := func() bool {
				status := v1alpha1.NodeAgentStatus{}
				l2.Report(&status)
				return len(status.Interfaces) > 0
			}
			l2.addresses = func() ([]netlink.Addr, error) {
				found, err := listAddresses()
				return found, errors.Join(err, netlink.ErrDumpInterrupted)
			}
			for range min(tt.partials, tellPartial-1) {
				if _, err := l2.readInterfaces(); err == nil || reports() {
					t.Fatalf("after a partial list it reports interfaces, or there is no error: %v", err)
				}
			}
			if tt.partials < tellPartial {
				l2.addresses = listAddresses
			}
			changes = 0
			if _, err := l2.readInterfaces(); !reports() || changes == 0 {
				t.Errorf("at last it reports none, or not at once: %d changes, %v", changes, err)
			}
		})
	}
}

// What a partial reading lacks is as it was, if its interface is.
func TestReading_Complete(t *testing.T) {
	eth0, eth1 := sameLink{2, "02:00:00:00:00:02"}, sameLink{3, "02:00:00:00:00:03"}
	last := reading{
		interfaces: []v1alpha1.AgentInterface{
			{Name: "eth0", MAC: eth0.mac, Addresses: []string{"192.0.2.10/24", "2001:db8::10/64"}, Deprecated: []string{"2001:db8::10/64"}},
			{Name: "eth1", MAC: eth1.mac, Addresses: []string{"198.51.100.10/24"}},
		},
		usable: map[string]sameLink{"eth0": eth0, "eth1": eth1},
		local:  map[netip.Addr][]string{netip.MustParseAddr("10.96.0.1"): {"kube-ipvs0"}, netip.MustParseAddr("192.0.2.10"): {"eth0"}},
	}
	for _, tt := range []struct {
		name    string
		partial []v1alpha1.AgentInterface
		usable  map[string]sameLink
		want    string
	}{
		{"nothing was read of both", nil, last.usable, "eth0 [192.0.2.10/24 2001:db8::10/64] [2001:db8::10/64], eth1 [198.51.100.10/24] []"},
		{"one has no carrier", nil, map[string]sameLink{"eth1": eth1}, "eth1 [198.51.100.10/24] []"},
		{"one was made again", nil, map[string]sameLink{"eth0": {7, eth0.mac}, "eth1": eth1}, "eth1 [198.51.100.10/24] []"},
		{"one has another MAC", nil, map[string]sameLink{"eth0": {2, "02:00:00:00:00:07"}, "eth1": eth1}, "eth1 [198.51.100.10/24] []"},
		{
			"one has another address, too",
			[]v1alpha1.AgentInterface{{Name: "eth0", Addresses: []string{"192.0.2.10/24", "192.0.2.11/24"}}},
			map[string]sameLink{"eth0": eth0},
			"eth0 [192.0.2.10/24 192.0.2.11/24 2001:db8::10/64] [2001:db8::10/64]",
		},
		{
			"there is another",
			[]v1alpha1.AgentInterface{{Name: "eth9", Addresses: []string{"192.0.2.9/24"}}},
			map[string]sameLink{"eth1": eth1, "eth9": {9, ""}},
			"eth1 [198.51.100.10/24] [], eth9 [192.0.2.9/24] []",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := reading{interfaces: tt.partial, usable: tt.usable, local: map[netip.Addr][]string{}, partial: true}
			r.complete(last)
			var got []string
			for _, i := range r.interfaces {
				got = append(got, fmt.Sprint(i.Name, " ", i.Addresses, " ", i.Deprecated))
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, ", ")); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(last.local, r.local, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Thousands of addresses that come and go keep no heartbeat waiting.
func TestL2_HeartbeatsWhileAddressesChange(t *testing.T) {
	a := newAgents(t, announce.Claim{Address: netip.MustParseAddr("10.8.0.100"), Probed: true})
	handle, link, addresses := a.services(a.hosts["a"], 16000)
	a.startAll()
	a.owner(a.view.Claims[0].Address, "", 20*time.Second)
	defer change(handle, link, addresses, time.Millisecond)()
	longest, last, before := time.Duration(0), time.Now(), a.udpSent()
	for began := last; time.Since(began) < 5*time.Second; time.Sleep(5 * time.Millisecond) {
		if sent := a.udpSent(); sent != before {
			longest, last, before = max(longest, time.Since(last)), time.Now(), sent
		}
	}
	t.Logf("the longest time without a heartbeat was %s", longest)
	if limit := within(3 * quorum.HeartbeatInterval); longest > limit {
		t.Errorf("no heartbeat was sent for %s, want %s at most", longest, limit)
	}
}
