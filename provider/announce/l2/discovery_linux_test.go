package l2

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/provider/announce"
	"github.com/ccmadm/ccmadm/provider/announce/quorum"
)

// Who drains hands over to one of which it could not learn: its API server was away when that joined. Once it has, it
// does not hear those who are deleted.
func TestL2_HandsOverToDiscoveredAgent(t *testing.T) {
	address := netip.MustParseAddr("10.8.0.100")
	a := newAgents(t, announce.Claim{Address: address, Probed: true})
	all := a.view
	sees := func(draining bool, names ...string) announce.View {
		v := all
		v.Draining, v.Members, v.Addresses = draining, names, map[string]netip.Addr{}
		for _, name := range names {
			v.Addresses[name] = all.Addresses[name]
		}
		v.Claims = slices.Clone(all.Claims)
		v.Claims[0].Candidates = names
		return v
	}
	set := func(name string, v announce.View) {
		v.Node = name
		a.list[name].Set(&v)
	}
	a.view = sees(false, "a")
	a.start("a")
	a.owner(address, "", 5*time.Second)
	a.view = sees(false, "a", "b")
	a.start("b")
	time.Sleep(1500 * time.Millisecond)
	owns := func() bool { return a.list["b"].Owns(address) }
	if owns() {
		t.Fatal("b has the address, while a works")
	}
	set("a", sees(true, "a"))
	a.owner(address, "a", 2*time.Second)
	set("a", sees(false, "a"))
	time.Sleep(1500 * time.Millisecond) // longer than anybody owns something without being answered
	waitFor(t, 30*time.Second, owns)    // though a drains no more
	set("a", sees(false, "a", "b"))
	time.Sleep(1500 * time.Millisecond)
	waitFor(t, 30*time.Second, owns) // though a has learned of it
	set("a", sees(true, "a"))
	waitFor(t, 30*time.Second, func() bool { return !owns() }) // since its Node is deleted
}

// A datagram of a discovered agent that another machine has recorded, and sends again, does not move where that agent is answered. One that
// has a new address is answered there.
func TestAnnouncer_ReplayedDiscovery(t *testing.T) {
	first, moved, hostile := netip.MustParseAddr("10.8.0.2"), netip.MustParseAddr("10.8.0.9"), netip.MustParseAddr("10.8.0.66")
	here := New(Options{Node: "here"})
	here.Set(&announce.View{
		Node: "here", Members: []string{"here"}, Addresses: map[string]netip.Addr{"here": netip.MustParseAddr("10.8.0.1")}, Draining: true,
	})
	start := func(incarnation uint64) *quorum.Member {
		m := quorum.New("late", incarnation, bootTime())
		m.SetMembers(bootTime(), []string{"here", "late"}, nil, nil)
		m.Request(bootTime(), netip.MustParseAddr("10.8.0.100"))
		return m
	}
	var recorded []*quorum.Datagram
	at := func(want netip.Addr, when string) {
		t.Helper()
		here.mu.Lock()
		defer here.mu.Unlock()
		if got := here.addressOf("late"); got != want {
			t.Errorf("%s: it is answered at %s, want %s", when, got, want)
		}
	}
	// exchange is a heartbeat of each, and whatever both say at once.
	exchange := func(late *quorum.Member, from netip.Addr) {
		for range 4 {
			time.Sleep(quorum.HeartbeatInterval)
			for _, d := range late.Datagrams(bootTime()) {
				recorded = append(recorded, d)
				here.take(d, from)
			}
			here.mu.Lock()
			answers := here.quorum.Datagrams(bootTime())
			here.mu.Unlock()
			for _, d := range answers {
				if d.To == "late" {
					late.Receive(bootTime(), d)
				}
			}
		}
	}
	replay := func(when string, want netip.Addr) {
		t.Helper()
		for _, d := range recorded {
			if here.take(d, hostile) {
				t.Fatalf("%s: a recorded datagram is new: nothing is tested", when)
			}
			elsewhere := *d
			elsewhere.To = "another"
			here.take(&elsewhere, hostile)
			at(want, when)
		}
	}
	late := start(1)
	exchange(late, first)
	if len(recorded) == 0 || !here.quorum.Alive(bootTime(), "late") {
		t.Fatal("the agent is not heard: nothing is tested")
	}
	at(first, "heard")
	replay("replayed", first)
	time.Sleep(time.Second) // it is not heard any more, and starts again
	exchange(start(2), moved)
	at(moved, "it has another address")
	replay("replayed again", moved)
}
