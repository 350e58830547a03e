package l2

import (
	"bytes"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netns"
)

// Thousands of addresses of IPv6, each with a group of its own, are more than a socket has room for. All are heard when a neighbour asks for
// them, and none of their groups is left behind.
func TestSegment_ManyGroups(t *testing.T) {
	l := newLAN(t)
	here, there := l.plug("here", 1), l.plug("there", 2)
	l.at(here, func() error {
		_ = os.WriteFile("/proc/sys/net/core/optmem_max", []byte("20480"), 0) // as before Linux 6.7; it was the whole machine's before 6.8
		return nil
	})
	heard := make(chan netip.Addr, 1000)
	s := l.withNDP(here, "lan-here", func(f frame) {
		if f.asks.IsValid() {
			heard <- f.asks
		}
	})
	other := l.withNDP(there, "lan-there", func(frame) {})
	before := l.groups(here)
	address := func(i int) netip.Addr {
		return netip.AddrFrom16([16]byte{0: 0xfd, 1: 8, 13: 1, 14: byte(i >> 8), 15: byte(i)})
	}
	const all = 3000
	for i := range all {
		if err := s.join(address(i)); err != nil {
			t.Fatalf("address %d: %v", i, err)
		}
	}
	sockets := len(s.groups.sockets)
	t.Logf("%d groups with %d sockets", all, sockets)
	if sockets < 2 {
		t.Error("one socket had room for all: this shows nothing")
	}
	ask := func(address netip.Addr) bool {
		t.Helper()
		for range 40 {
			if err := other.ask(address); err != nil {
				t.Fatal(err)
			}
			for again := time.After(50 * time.Millisecond); again != nil; {
				select {
				case got := <-heard:
					if got == address { // else it is late, and was asked for before
						return true
					}
				case <-again:
					again = nil
				}
			}
		}
		return false
	}
	for _, i := range []int{0, all / 2, all - 1} {
		if !ask(address(i)) {
			t.Errorf("address %d is not heard when a neighbour asks for it", i)
		}
	}
	same := netip.MustParseAddr("fd09::1:0:0") // of the group of the first one
	if err := s.join(same); err != nil {
		t.Fatal(err)
	}
	for i := range all {
		s.leave(address(i))
	}
	if !ask(same) {
		t.Error("an address is not heard any more whose group another one has left")
	}
	if ask(address(1)) {
		t.Error("an address is heard whose group was left")
	}
	s.leave(same)
	if after := l.groups(here); after != before {
		t.Errorf("the machine is in %d groups, want %d as before", after, before)
	}
	if err := s.join(address(0)); err != nil || len(s.groups.sockets) != sockets {
		t.Errorf("the sockets that there are have room again: got %v, and %d sockets, want %d", err, len(s.groups.sockets), sockets)
	}
}

// withNDP opens a segment whose interface has a link-local address, which takes a second or two.
func (l *lan) withNDP(host netns.NsHandle, name string, receive func(frame)) *segment {
	l.t.Helper()
	s, err := openSegment(host, name, receive)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { s.close(); s.ended.Wait() })
	waitFor(l.t, 10*time.Second, func() bool {
		s.listenNDP(host, receive)
		return s.ndp != nil
	})
	return s
}

// groups is in how many groups of IPv6 a host is.
func (l *lan) groups(host netns.NsHandle) (n int) {
	l.t.Helper()
	l.at(host, func() error {
		text, err := os.ReadFile("/proc/thread-self/net/igmp6")
		n = bytes.Count(text, []byte("\n"))
		return err
	})
	return n
}
