package announce

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests/manifeststest"
)

// lan is a bridge in a network namespace, with hosts in their own:
//
//	switch: br0      host N: lan-NAME 10.8.0.N fd08::N
type lan struct {
	t     *testing.T
	sw    netns.NsHandle
	hosts map[string]netns.NsHandle
	ports map[string]netlink.Link
}

// newLAN makes one.
func newLAN(t *testing.T) *lan {
	t.Helper()
	manifeststest.NeedRoot(t)
	l := &lan{t: t, hosts: map[string]netns.NsHandle{}, ports: map[string]netlink.Link{}}
	l.sw = l.namespace()
	l.at(l.sw, func() error {
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}, MulticastSnooping: new(bool)}
		if err := netlink.LinkAdd(bridge); err != nil {
			return err
		}
		return netlink.LinkSetUp(bridge)
	})
	return l
}

// namespace makes one that is gone with its last handle.
func (l *lan) namespace() netns.NsHandle {
	l.t.Helper()
	made := make(chan netns.NsHandle, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		handle, err := netns.New()
		if err != nil {
			l.t.Error(err)
			handle = netns.None()
		}
		made <- handle
	}()
	handle := <-made
	if !handle.IsOpen() {
		l.t.FailNow()
	}
	l.t.Cleanup(func() { _ = handle.Close() })
	return handle
}

func (l *lan) at(namespace netns.NsHandle, f func() error) {
	l.t.Helper()
	if err := enter(namespace, f); err != nil {
		l.t.Fatal(err)
	}
}

// plug connects a host whose addresses end with the number.
func (l *lan) plug(name string, number int) netns.NsHandle {
	l.t.Helper()
	host := l.namespace()
	l.hosts[name] = host
	port := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "p-" + name}, PeerName: "lan-" + name, PeerNamespace: netlink.NsFd(host)}
	l.at(l.sw, func() error {
		if err := netlink.LinkAdd(port); err != nil {
			return err
		}
		bridge, err := netlink.LinkByName("br0")
		if err != nil {
			return err
		}
		if err := netlink.LinkSetMaster(port, bridge); err != nil {
			return err
		}
		l.ports[name] = port
		return netlink.LinkSetUp(port)
	})
	l.at(host, func() error {
		link, err := netlink.LinkByName("lan-" + name)
		if err != nil {
			return err
		}
		for _, text := range []string{fmt.Sprintf("10.8.0.%d/24", number), fmt.Sprintf("fd08::%d/64", number)} {
			address, err := netlink.ParseAddr(text)
			if err != nil {
				return err
			}
			address.Flags = 0x02 // IFA_F_NODAD: nobody else is here
			if err := netlink.AddrAdd(link, address); err != nil {
				return err
			}
		}
		return netlink.LinkSetUp(link)
	})
	return host
}

// port puts the bridge's port of a host up or down: that is a cable, or a power cut as the others see it.
func (l *lan) port(name string, up bool) {
	l.t.Helper()
	l.at(l.sw, func() error {
		link, err := netlink.LinkByName("p-" + name)
		if err != nil {
			return err
		}
		if up {
			return netlink.LinkSetUp(link)
		}
		return netlink.LinkSetDown(link)
	})
}

// agents are L2s on hosts, with a cluster that is always the same to all of them.
type agents struct {
	*lan
	list   map[string]*L2
	stop   map[string]context.CancelFunc
	ended  map[string]chan error
	view   View
	notice func(Claim, v1alpha1.AddressConflict)
}

func newAgents(t *testing.T, claims ...Claim) *agents {
	leaks := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, leaks) })
	l := newLAN(t)
	a := &agents{lan: l, list: map[string]*L2{}, stop: map[string]context.CancelFunc{}, ended: map[string]chan error{}}
	a.view = View{Nodes: map[string]*corev1.Node{}, Agents: map[string]*v1alpha1.NodeAgent{}, Addresses: map[string]netip.Addr{}}
	for i, name := range []string{"a", "b", "c"} {
		l.plug(name, i+1)
		a.view.Nodes[name] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		a.view.Agents[name] = &v1alpha1.NodeAgent{}
		a.view.Addresses[name] = netip.AddrFrom4([4]byte{10, 8, 0, byte(i + 1)})
		a.view.Members = append(a.view.Members, name)
	}
	for _, c := range claims {
		c.Level, c.Candidates = v1alpha1.LevelL2, a.view.Members
		a.view.Claims = append(a.view.Claims, c)
	}
	t.Cleanup(func() {
		for name := range a.list {
			a.kill(name)
		}
	})
	return a
}

func (a *agents) start(name string) {
	log := logr.Discard()
	if testing.Verbose() {
		log = testr.New(a.t).WithName(name)
	}
	l2 := NewL2(L2Options{
		Node: name, Key: bytes.Repeat([]byte{7}, 32), Port: v1alpha1.HeartbeatPort, Changed: func() {}, Conflict: a.notice,
		Namespace: a.hosts[name], Log: log,
	})
	ctx, cancel := context.WithCancel(a.t.Context())
	ended := make(chan error, 1)
	a.list[name], a.stop[name], a.ended[name] = l2, cancel, ended
	view := a.view
	view.Node = name
	l2.Set(&view)
	go func() { ended <- l2.Run(ctx) }()
}

// kill ends an agent that says nothing.
func (a *agents) kill(name string) {
	a.t.Helper()
	a.stop[name]()
	if err := <-a.ended[name]; err != nil {
		a.t.Error(err)
	}
	delete(a.list, name)
}

func (a *agents) set(change func(*View)) {
	change(&a.view)
	for name, l2 := range a.list {
		view := a.view
		view.Node = name
		l2.Set(&view)
	}
}

// owner waits until one of them answers for the address, and says how long that took.
func (a *agents) owner(address netip.Addr, not string, within time.Duration) (string, time.Duration) {
	a.t.Helper()
	start := time.Now()
	for time.Since(start) < within {
		for name, l2 := range a.list {
			status := v1alpha1.NodeAgentStatus{}
			l2.Report(&status)
			has := slices.ContainsFunc(status.Announcements, func(x v1alpha1.Announcement) bool { return x.Address == address.String() })
			if has && name != not && l2.Owns(address) {
				return name, time.Since(start)
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	a.t.Fatalf("nobody but %q has %s within %s", not, address, within)
	return "", 0
}

// observer is a host that asks for an address all the time, and hears all answers on the wire.
type observer struct {
	mu      sync.Mutex
	answers []answer
}

type answer struct {
	at  time.Time
	mac string
}

func (o *observer) hears(address netip.Addr) func(frame) {
	return func(f frame) {
		if f.has == address {
			o.mu.Lock()
			o.answers = append(o.answers, answer{time.Now(), f.mac.String()})
			o.mu.Unlock()
		}
	}
}

// observe asks every 10 ms.
func (a *agents) observe(address netip.Addr) *observer {
	a.t.Helper()
	o := &observer{}
	host := a.plug("observer", 200)
	var s *segment
	for s == nil || s.ndp == nil { // its link-local address is there after a second or two
		var err error
		if s, err = openSegment(host, "lan-observer", o.hears(address)); err != nil {
			a.t.Fatal(err)
		}
		if s.ndp == nil {
			s.close()
			s.ended.Wait()
			time.Sleep(50 * time.Millisecond)
		}
	}
	ctx, cancel := context.WithCancel(a.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			question := arpPacket{arpRequest, s.mac, netip.MustParseAddr("10.8.0.200"), make(net.HardwareAddr, 6), address}
			if address.Is4() {
				_ = s.sendARP(broadcast(), question)
			} else {
				_ = s.ask(address)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	a.t.Cleanup(func() { cancel(); <-done; s.close(); s.ended.Wait() })
	return o
}

// gaps returns the longest time without an answer since then, and whether an owner answered after another one had begun.
func (o *observer) gaps(since time.Time) (longest time.Duration, back bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	last, seen, current := since, map[string]bool{}, ""
	for _, x := range o.answers {
		if x.at.Before(since) {
			continue
		}
		longest, last = max(longest, x.at.Sub(last)), x.at
		if x.mac != current {
			back = back || seen[x.mac]
			seen[x.mac], current = true, x.mac
		}
	}
	return max(longest, time.Since(last)), back
}

func (a *agents) startAll() {
	for _, name := range a.view.Members {
		a.start(name)
	}
}

func TestL2_Moves(t *testing.T) {
	for _, text := range []string{"10.8.0.100", "fd08::100"} {
		t.Run(text, func(t *testing.T) {
			address := netip.MustParseAddr(text)
			a := newAgents(t, Claim{Address: address, Probed: true})
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
			if gap > 300*time.Millisecond || back {
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
			if gap > 1500*time.Millisecond || back {
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

			a.set(func(v *View) { v.Claims = nil })
			time.Sleep(50 * time.Millisecond)
			began = time.Now()
			time.Sleep(200 * time.Millisecond)
			o.mu.Lock()
			defer o.mu.Unlock()
			if last := o.answers[len(o.answers)-1]; last.at.After(began) {
				t.Errorf("%s answers for an address that nobody claims", last.mac)
			}
		})
	}
}

// stranger answers ARP for an address, as a machine with a hand-made configuration would.
func (a *agents) stranger(address netip.Addr) *segment {
	a.t.Helper()
	var s *segment
	ready := make(chan struct{})
	s, err := openSegment(a.plug("stranger", 201), "lan-stranger", func(f frame) {
		<-ready
		if f.asks == address {
			_ = s.answer(f)
		}
	})
	close(ready)
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { s.close(); s.ended.Wait() })
	return s
}

// An address that somebody has is not taken, and said; once it is free, it is.
func TestL2_AsksBeforeItsFirstUse(t *testing.T) {
	taken, free := netip.MustParseAddr("10.8.0.100"), netip.MustParseAddr("10.8.0.101")
	a := newAgents(t, Claim{Address: taken}, Claim{Address: free})
	found := make(chan v1alpha1.AddressConflict, 10)
	a.notice = func(_ Claim, c v1alpha1.AddressConflict) { found <- c }
	s := a.stranger(taken)
	a.startAll()
	select {
	case c := <-found:
		if c.Address != taken.String() || c.MAC != s.mac.String() {
			t.Errorf("got conflict %+v, want one with %s", c, s.mac)
		}
	case <-time.After(10 * time.Second):
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
	a := newAgents(t, Claim{Address: address})
	found := make(chan v1alpha1.AddressConflict, 10)
	a.notice = func(_ Claim, c v1alpha1.AddressConflict) { found <- c }
	a.startAll()
	owner, _ := a.owner(address, "", 10*time.Second)
	s := a.stranger(address)
	var conflict v1alpha1.AddressConflict
	for began := time.Now(); conflict.MAC == "" && time.Since(began) < 5*time.Second; {
		_ = s.shout(address) // its interface takes a moment
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
	a := newAgents(t, Claim{Address: address, Probed: true})
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

// mute keeps a host from sending heartbeats, and from nothing else: a link that fails in one direction.
func (a *agents) mute(name string, mute bool) {
	a.t.Helper()
	a.at(a.hosts[name], func() error {
		for other, address := range a.view.Addresses {
			route := &netlink.Route{Type: unix.RTN_BLACKHOLE, Dst: &net.IPNet{IP: address.AsSlice(), Mask: net.CIDRMask(32, 32)}}
			change := netlink.RouteDel
			if mute {
				change = netlink.RouteAdd
			}
			if other == name {
				continue
			}
			if err := change(route); err != nil {
				return err
			}
		}
		return nil
	})
}
