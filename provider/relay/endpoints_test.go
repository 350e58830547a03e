package relay

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"
)

func endpoints(n int) []netip.AddrPort {
	var list []netip.AddrPort
	for i := range n {
		list = append(list, netip.MustParseAddrPort(fmt.Sprintf("10.0.0.%d:80", i+1)))
	}
	return list
}

// A sticky client goes to the same endpoint, whatever order these are in, and clients spread over all. One that goes
// takes along its own clients only.
func TestOrder_Sticky(t *testing.T) {
	f := &failures{at: map[netip.AddrPort]time.Time{}}
	front := &Frontend{Sticky: true, Endpoints: endpoints(4)}
	gone := front.Endpoints[2]
	fewer := &Frontend{Sticky: true, Endpoints: endpoints(4)}
	fewer.Endpoints = slices.DeleteFunc(fewer.Endpoints, func(e netip.AddrPort) bool { return e == gone })
	slices.Reverse(fewer.Endpoints)
	counts := map[netip.AddrPort]int{}
	for i := range 1000 {
		client := netip.AddrFrom4([4]byte{192, 0, byte(i / 256), byte(i)})
		first := f.order(time.Now(), front, client)[0]
		counts[first]++
		if after := f.order(time.Now(), fewer, client)[0]; first != gone && after != first {
			t.Fatalf("%s went to %s, and now to %s", client, first, after)
		}
	}
	for _, endpoint := range front.Endpoints {
		if got := counts[endpoint]; got < 150 || got > 350 {
			t.Errorf("%s has %d of 1000 clients", endpoint, got)
		}
	}
}

// What has failed comes last for ten seconds, that first which failed first; then one connection tries it, and others
// do not meanwhile.
func TestOrder_Failures(t *testing.T) {
	f := &failures{at: map[netip.AddrPort]time.Time{}}
	front, now := &Frontend{Endpoints: endpoints(3)}, time.Now()
	first, second := front.Endpoints[0], front.Endpoints[1]
	client := netip.MustParseAddr("192.0.2.1")
	f.tried(now, second, false)
	f.tried(now.Add(time.Second), first, false)
	for range 20 {
		if got := f.order(now.Add(2*time.Second), front, client); got[1] != second || got[2] != first {
			t.Fatalf("got %v, want %s and %s at the end", got, second, first)
		}
	}
	later := now.Add(avoidTime + time.Millisecond)
	tries := 0
	for range 100 {
		order := f.order(later, front, client)
		if order[2] != first {
			t.Fatalf("got %v, want %s at the end", order, first)
		}
		if order[0] == second {
			tries++
		}
	}
	if tries == 0 || tries == 100 {
		t.Errorf("%d of 100 connections would try it", tries)
	}
	f.trying(later, second)
	if got := f.order(later, front, client); got[2] != second {
		t.Errorf("one connection tries it, and others do: %v", got)
	}
	f.tried(later, second, true)
	f.keep(map[netip.AddrPort]bool{second: true})
	if len(f.at) > 0 {
		t.Errorf("it was reached, and the other one is gone: %v", f.at)
	}
}
