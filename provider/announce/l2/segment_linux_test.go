package l2

import (
	"bytes"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/vishvananda/netlink"

	"github.com/ccmadm/ccmadm/provider/announce"
)

// Frames to another machine say nothing about addresses here. Those of a VLAN that a machine does not have are marked by
// the kernel in the same way.
func TestSegment_FramesOfOthers(t *testing.T) {
	l := newLAN(t)
	here, there := l.plug("here", 1), l.plug("there", 2)
	address := netip.MustParseAddr("10.8.0.100")
	heard := make(chan net.HardwareAddr, 100)
	s, err := openSegment(here, "lan-here", func(f frame) {
		if f.has == address {
			heard <- f.mac
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	other, err := openSegment(there, "lan-there", func(frame) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, s := range []*segment{s, other} {
			s.close()
			s.ended.Wait()
		}
	})
	say := func(to, from net.HardwareAddr) {
		if err := other.sendARP(to, arpPacket{arpReply, from, address, to, netip.MustParseAddr("10.8.0.1")}); err != nil {
			t.Error(err)
		}
	}
	elsewhere, ours := net.HardwareAddr{2, 0, 0, 0, 0, 99}, net.HardwareAddr{2, 0, 0, 0, 0, 1}
	for taken, began := 0, time.Now(); taken < 5; {
		if time.Since(began) > time.Minute {
			t.Fatal("a frame to this machine, or to all, is not taken")
		}
		say(elsewhere, elsewhere) // the bridge does not know where that is, so that all ports get it
		say(s.mac, ours)
		say(broadcast(), ours)
		select {
		case mac := <-heard:
			if !bytes.Equal(mac, ours) {
				t.Fatal("a frame to another machine is taken")
			}
			taken++
		case <-time.After(50 * time.Millisecond): // the interface takes a moment
		}
	}
}

func TestUsable(t *testing.T) {
	mac, up := net.HardwareAddr{2, 0, 0, 0, 0, 1}, net.FlagUp
	attrs := func(index, master int) netlink.LinkAttrs {
		return netlink.LinkAttrs{Index: index, MasterIndex: master, HardwareAddr: mac, Flags: up, OperState: netlink.OperUp}
	}
	down := attrs(9, 0)
	down.OperState = netlink.OperLowerLayerDown
	links := []netlink.Link{
		&netlink.Device{LinkAttrs: attrs(1, 0)}, &netlink.Bridge{LinkAttrs: attrs(2, 0)}, &netlink.Device{LinkAttrs: attrs(3, 2)},
		&netlink.Vrf{LinkAttrs: attrs(4, 0)}, &netlink.Device{LinkAttrs: attrs(5, 4)}, &netlink.Vlan{LinkAttrs: attrs(6, 4)},
		&netlink.Bond{LinkAttrs: attrs(7, 0)}, &netlink.Device{LinkAttrs: attrs(8, 7)}, &netlink.Device{LinkAttrs: down},
		&netlink.Device{LinkAttrs: attrs(10, 77)}, &netlink.Bridge{LinkAttrs: attrs(11, 4)},
	}
	for i, want := range []bool{true, true, false, false, true, true, true, false, false, false, true} {
		if got := usable(links[i], links); got != want {
			t.Errorf("%s %d with master %d: got %t", links[i].Type(), links[i].Attrs().Index, links[i].Attrs().MasterIndex, got)
		}
	}
}

// What keeps heartbeats from being sent is logged once, and again after it has ended.
func TestL2_HeartbeatsThatAreNotSent(t *testing.T) {
	a := newAgents(t, announce.Claim{Address: netip.MustParseAddr("10.8.0.100"), Probed: true})
	a.view.Addresses["b"] = netip.MustParseAddr("203.0.113.1") // there is no route
	var logged atomic.Int32
	a.start("a")
	l2 := a.list["a"]
	l2.mu.Lock()
	l2.Log = funcr.New(func(_, text string) {
		if strings.Contains(text, "Cannot send heartbeats to a Node") && strings.Contains(text, "send heartbeat to b") {
			logged.Add(1)
		}
	}, funcr.Options{})
	clear(l2.unsent)
	l2.mu.Unlock()
	began := a.udpSent()
	waitFor(t, 5*time.Second, func() bool { return a.udpSent() > began+10 }) // to c, and to b in between
	if got := logged.Load(); got != 1 {
		t.Errorf("logged %d times, want once", got)
	}
}
