package l2

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
)

func TestL2_Moves(t *testing.T) {
	for _, text := range []string{"10.8.0.100", "fd08::100"} {
		t.Run(text, func(t *testing.T) {
			address := netip.MustParseAddr(text)
			a := newAgents(t, announce.Claim{Address: address, Probed: true})
			a.startAll()
			first, took := a.owner(address, "", 10*time.Second)
			t.Logf("%s has it after %s", first, took)
			o := a.observe(address)
			time.Sleep(300 * time.Millisecond)

			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			a.list[first].Drain(ctx)
			cancel()
			second, took := a.owner(address, first, 2*time.Second)
			time.Sleep(300 * time.Millisecond)
			gap, back := o.gaps(began)
			t.Logf("drained: %s has it after %s; no answer for %s", second, took, gap)
			if gap > within(300*time.Millisecond) || back {
				t.Errorf("hand-over: no answer for %s, two owners: %t", gap, back)
			}
			a.kill(first)
			a.start(first)
			time.Sleep(1500 * time.Millisecond)

			began = time.Now()
			a.port(second, false)
			third, took := a.owner(address, second, 3*time.Second)
			time.Sleep(100 * time.Millisecond)
			gap, back = o.gaps(began)
			t.Logf("cut off: %s has it after %s; no answer for %s", third, took, gap)
			if gap > within(1500*time.Millisecond) || back {
				t.Errorf("power cut: no answer for %s, two owners: %t", gap, back)
			}
			if a.list[second].Owns(address) {
				t.Errorf("%s is cut off and still owns it", second)
			}
			a.port(second, true)
			time.Sleep(500 * time.Millisecond)
			if _, back = o.gaps(began); back {
				t.Error("who was cut off has answered again")
			}

			a.set(func(v *announce.View) { v.Claims = nil })
			waitFor(t, 30*time.Second, func() bool { // nobody answers for an address that nobody claims
				o.mu.Lock()
				defer o.mu.Unlock()
				return time.Since(o.answers[len(o.answers)-1].at) > 200*time.Millisecond
			})
		})
	}
}

// An address that somebody has is not taken, and said; once it is free, it is.
func TestL2_AsksBeforeItsFirstUse(t *testing.T) {
	taken, free := netip.MustParseAddr("10.8.0.100"), netip.MustParseAddr("10.8.0.101")
	a := newAgents(t, announce.Claim{Address: taken}, announce.Claim{Address: free})
	found := make(chan v1alpha1.AddressConflict, 10)
	a.notice = func(_ announce.Claim, c v1alpha1.AddressConflict) { found <- c }
	s := a.stranger(taken)
	a.startAll()
	select {
	case c := <-found:
		if c.Address != taken.String() || c.MAC != s.mac.String() {
			t.Errorf("got conflict %+v, want one with %s", c, s.mac)
		}
	case <-time.After(time.Minute):
		t.Fatal("nobody noticed who has the address")
	}
	a.owner(free, "", 5*time.Second)
	time.Sleep(time.Second)
	for name, l2 := range a.list {
		status := v1alpha1.NodeAgentStatus{}
		l2.Report(&status)
		for _, x := range status.Announcements {
			if x.Address == taken.String() {
				t.Errorf("%s announces an address that %s has", name, s.mac)
			}
		}
	}
}

// Somebody who takes an address later is reported, and contradicted.
func TestL2_Defends(t *testing.T) {
	address := netip.MustParseAddr("10.8.0.100")
	a := newAgents(t, announce.Claim{Address: address})
	found := make(chan v1alpha1.AddressConflict, 10)
	a.notice = func(_ announce.Claim, c v1alpha1.AddressConflict) { found <- c }
	a.startAll()
	owner, _ := a.owner(address, "", 10*time.Second)
	s := a.stranger(address)
	var conflict v1alpha1.AddressConflict
	for began := time.Now(); conflict.MAC == "" && time.Since(began) < time.Minute; {
		_ = s.sendGratuitousARP(address) // its interface takes a moment
		select {
		case conflict = <-found:
		case <-time.After(100 * time.Millisecond):
		}
	}
	if conflict.MAC != s.mac.String() {
		t.Errorf("got conflict %+v, want one with %s", conflict, s.mac)
	}
	if !a.list[owner].Owns(address) {
		t.Errorf("%s gave way", owner)
	}
}

// Links fail in one direction, and Nodes are cut off and come back: an observer never hears a former owner again.
func TestL2_Partitions(t *testing.T) {
	address := netip.MustParseAddr("10.8.0.100")
	a := newAgents(t, announce.Claim{Address: address, Probed: true})
	a.startAll()
	owner, _ := a.owner(address, "", 10*time.Second)
	o := a.observe(address)
	for range 3 {
		began := time.Now()
		a.mute(owner, true)
		next, took := a.owner(address, owner, 4*time.Second)
		time.Sleep(300 * time.Millisecond)
		gap, back := o.gaps(began)
		t.Logf("%s cannot send heartbeats: %s has it after %s; no answer for %s", owner, next, took, gap)
		if back || a.list[owner].Owns(address) {
			t.Errorf("%s has answered after %s did", owner, next)
		}
		a.mute(owner, false)
		time.Sleep(1500 * time.Millisecond)
		if _, back = o.gaps(began); back {
			t.Errorf("%s has taken the address back", owner)
		}
		owner = next
	}
}
