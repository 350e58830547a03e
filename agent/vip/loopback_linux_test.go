package vip

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ccmadm/ccmadm/provider/announce/bgp"
)

// flushLo does what `ip address flush dev lo` does.
func (c *cp) flushLo(t *testing.T) {
	t.Helper()
	inside, err := netlink.NewHandleAt(c.ns)
	must(t, err)
	defer inside.Close()
	lo, err := inside.LinkByName("lo")
	must(t, err)
	list, err := inside.AddrList(lo, netlink.FAMILY_ALL)
	must(t, err)
	for i := range list {
		if !strings.HasPrefix(list[i].IP.String(), "127.") { // else the API server is gone as well
			must(t, inside.AddrDel(lo, &list[i]))
		}
	}
}

// eventually waits for what has to come about within a time. A busy machine has half a minute.
func eventually(t *testing.T, within time.Duration, what string, is func() bool) {
	t.Helper()
	begin, within := time.Now(), max(within, 30*time.Second)
	for !is() {
		if time.Since(begin) > within {
			t.Fatalf("not within %s: %s", within, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("after %s: %s", time.Since(begin).Round(time.Millisecond), what)
}

// An administrator's program takes the address from lo of the machine that answers for it. It is soon there again, on the
// same machine.
func TestVIP_LoopbackFlushed(t *testing.T) {
	machines, client := apart(t, 2)
	owner := machines[client.wait(t, machines, 20*time.Second, "")]
	for range 2 {
		eventually(t, 2*time.Second, "it is on lo", func() bool { return onLoopback(t, owner) })
		owner.flushLo(t)
		if onLoopback(t, owner) {
			t.Fatal("lo has the address after it was flushed: this shows nothing")
		}
		eventually(t, 3*time.Second, "it is on lo again", func() bool { return onLoopback(t, owner) })
	}
	if mac := client.wait(t, machines, 2*time.Second, ""); mac != owner.mac {
		t.Errorf("%s answers for the address, want the one that had it", machines[mac].name)
	}
}

// While another program changes thousands of addresses, such as kube-proxy in mode ipvs, lists of addresses lack some: the address is put on
// lo, and taken from there, all the same.
func TestLoopback_ChangesMeanwhile(t *testing.T) {
	ownNamespace(t)
	lo, err := netlink.LinkByName("lo")
	must(t, err)
	for i := range 2000 { // more than one message has room for
		must(t, netlink.AddrAdd(lo, &netlink.Addr{IPNet: netlink.NewIPNet(net.IPv4(10, 96, byte(i>>8), byte(i)))}))
	}
	other, err := netlink.NewHandle()
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer other.Close()
		for changed := (&netlink.Addr{IPNet: netlink.NewIPNet(net.IPv4(10, 97, 0, 1))}); ctx.Err() == nil; {
			_ = other.AddrAdd(lo, changed)
			_ = other.AddrDel(lo, changed)
		}
	}()
	defer func() { stop(); <-ended }()
	for _, vip := range []netip.Addr{addr("192.0.2.10"), addr("2001:db8::10")} {
		own := &netlink.Addr{IPNet: netlink.NewIPNet(vip.AsSlice())}
		for range 5 {
			must(t, addToLoopback(vip))
			must(t, addToLoopback(vip)) // which is there
			if err := netlink.AddrAdd(lo, own); !errors.Is(err, unix.EEXIST) {
				t.Fatalf("%s was put on lo, and is not there: %v", vip, err)
			}
			must(t, removeFromLoopback(vip))
			must(t, removeFromLoopback(vip)) // which is not there
			if err := netlink.AddrDel(lo, own); !errors.Is(err, unix.EADDRNOTAVAIL) {
				t.Fatalf("%s was removed from lo, and is still there: %v", vip, err)
			}
		}
	}
}

// By BGP, too, the address comes back, and only while the API server answers.
func TestBGPHolder_LoopbackFlushed(t *testing.T) {
	ownNamespace(t)
	ctx := t.Context()
	speaker, err := bgp.NewSpeaker(ctx, logr.Discard(), []netip.Addr{addr("192.0.2.11")}, func() {})
	must(t, err)
	defer func() { _ = speaker.Close(context.WithoutCancel(ctx)) }()
	h := &bgpHolder{address: addr("192.0.2.10"), speaker: speaker}
	lo, err := netlink.LinkByName("lo")
	must(t, err)
	for _, healthy := range []bool{true, false} {
		h.healthy = healthy
		h.settle()
		if !healthy { // what another program does the other way round is undone, too
			must(t, addToLoopback(h.address))
		} else {
			must(t, netlink.AddrDel(lo, &netlink.Addr{IPNet: netlink.NewIPNet(h.address.AsSlice())}))
		}
		h.retry()
		_, there, err := onLo(h.address)
		must(t, err)
		if (len(there) > 0) != healthy {
			t.Errorf("API server healthy: %t, on lo: %v", healthy, there)
		}
	}
}
