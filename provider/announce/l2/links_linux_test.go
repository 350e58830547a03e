package l2

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
	"github.com/ccmadm/ccmadm/provider/announce/quorum"
)

// Events that were lost end the watch, though only one of its two subscriptions has lost them.
func TestWatchInterfaces_EventsAreLost(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, leaks) })
	l := newLAN(t)
	host := l.plug("a", 1)
	change := func(f func(netlink.Link, *netlink.Addr) error) {
		t.Helper()
		l.at(host, func() error {
			link, err := netlink.LinkByName("lan-a")
			if err != nil {
				return err
			}
			address, err := netlink.ParseAddr("10.8.0.77/24")
			if err != nil {
				return err
			}
			return f(link, address)
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	done, began, blocked := make(chan error, 1), make(chan struct{}, 1), make(chan struct{})
	go func() { done <- watchInterfaces(ctx, host, func() { wake(began); <-blocked }) }()
	<-began
	change(func(link netlink.Link, address *netlink.Addr) error {
		for range 10_000 {
			if err := netlink.AddrAdd(link, address); err != nil {
				return err
			}
			if err := netlink.AddrDel(link, address); err != nil {
				return err
			}
		}
		return nil
	})
	close(blocked)
	select {
	case err := <-done:
		if err == nil || !strings.Contains(err.Error(), unix.ENOBUFS.Error()) {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("it goes on, with one of two subscriptions")
		cancel()
		<-done
	}
	cancel()
}

// An interface that was deleted and made again within one look, with the same name, MAC and addresses as a VLAN has, is
// another one: the sockets of the former are deaf.
func TestL2_InterfaceIsMadeAgain(t *testing.T) {
	address := netip.MustParseAddr("10.9.0.100")
	a := newAgents(t, announce.Claim{Address: address, Probed: true})
	host, other := a.hosts["a"], a.plug("other", 200)
	makeAgain(a.lan, host, other)
	a.set(func(v *announce.View) { v.Claims[0].Candidates = []string{"a"} })
	a.startAll()
	a.owner(address, "", 10*time.Second)

	l2 := a.list["a"]
	l2.mu.Lock()
	wake(l2.refresh)
	time.Sleep(3 * quorum.HeartbeatInterval) // what was read waits for the lock by now, so that nothing is read in between
	makeAgain(a.lan, host, other)
	l2.mu.Unlock()
	heard := make(chan struct{}, 1)
	s, err := openSegment(other, "far9", func(f frame) {
		if f.has == address {
			wake(heard)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.close(); s.ended.Wait() })
	time.Sleep(time.Second) // it has told everybody about the address by then
	for began := time.Now(); time.Since(began) < 20*time.Second; time.Sleep(50 * time.Millisecond) {
		question := arpPacket{arpRequest, s.mac, netip.MustParseAddr("10.9.0.200"), make(net.HardwareAddr, 6), address}
		_ = s.sendARP(broadcast(), question)
		select {
		case <-heard:
			return
		default:
		}
	}
	t.Errorf("nobody answers for %s, and agent a reports that it does", address)
}

// An address whose preferred lifetime is over, as when a router has announced another prefix, is reported as such.
func TestReadInterfaces_Deprecated(t *testing.T) {
	l := newLAN(t)
	host := l.plug("a", 1)
	l.at(host, func() error {
		link, err := netlink.LinkByName("lan-a")
		if err != nil {
			return err
		}
		for text, preferred := range map[string]int{"2001:db8:1::1/64": 0, "2001:db8:2::1/64": 3600} {
			address, err := netlink.ParseAddr(text)
			if err != nil {
				return err
			}
			address.Flags, address.ValidLft, address.PreferedLft = unix.IFA_F_NODAD, 3600, preferred
			if err := netlink.AddrAdd(link, address); err != nil {
				return err
			}
		}
		return nil
	})
	r, err := readKernel(host, listAddresses)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(r.interfaces, func(i v1alpha1.AgentInterface) bool { return i.Name == "lan-a" })
	if i < 0 {
		t.Fatalf("lan-a is not among %+v", r.interfaces)
	}
	got := r.interfaces[i]
	if !slices.Equal(got.Deprecated, []string{"2001:db8:1::1/64"}) || !slices.Contains(got.Addresses, "2001:db8:1::1/64") ||
		!slices.Contains(got.Addresses, "2001:db8:2::1/64") {
		t.Errorf("lan-a is %+v", got)
	}
}

// makeAgain deletes and makes a cable between two hosts: net9 with 10.9.0.1, and far9.
func makeAgain(l *lan, host, other netns.NsHandle) {
	l.t.Helper()
	l.at(host, func() error {
		if old, err := netlink.LinkByName("net9"); err == nil {
			if err := netlink.LinkDel(old); err != nil {
				return err
			}
		}
		cable := &netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: "net9", HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 9, 1}},
			PeerName:  "far9", PeerNamespace: netlink.NsFd(other),
		}
		if err := netlink.LinkAdd(cable); err != nil {
			return err
		}
		subnet, err := netlink.ParseAddr("10.9.0.1/24")
		if err != nil {
			return err
		}
		return errors.Join(netlink.AddrAdd(cable, subnet), netlink.LinkSetUp(cable))
	})
	l.at(other, func() error {
		far, err := netlink.LinkByName("far9")
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(far)
	})
}
