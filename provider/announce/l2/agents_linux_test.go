package l2

import (
	"bytes"
	"cmp"
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
)

// agents are Announcers on hosts, with a cluster that is always the same to all of them.
type agents struct {
	*lan
	list   map[string]*Announcer
	stop   map[string]context.CancelFunc
	ended  map[string]chan error
	view   announce.View
	notice func(announce.Claim, v1alpha1.AddressConflict)
	linger time.Duration
	hooks  func(name string, o *Options) // what Taken and Lost do
}

func newAgents(t *testing.T, claims ...announce.Claim) *agents {
	leaks := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, leaks) })
	l := newLAN(t)
	a := &agents{lan: l, list: map[string]*Announcer{}, stop: map[string]context.CancelFunc{}, ended: map[string]chan error{}}
	a.view = announce.View{Nodes: map[string]*corev1.Node{}, Agents: map[string]*v1alpha1.NodeAgent{}, Addresses: map[string]netip.Addr{}}
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

// reportInterface puts the interface of an agent's host into the view.
func (a *agents) reportInterface(name string) {
	a.t.Helper()
	a.at(a.hosts[name], func() error {
		link, err := netlink.LinkByName("lan-" + name)
		if err != nil {
			return err
		}
		a.view.Agents[name].Status.Interfaces = []v1alpha1.AgentInterface{{
			Name: link.Attrs().Name, MAC: link.Attrs().HardwareAddr.String(),
			Addresses: []string{a.view.Addresses[name].String() + "/24"},
		}}
		return nil
	})
}

func (a *agents) start(name string) {
	log := logr.Discard()
	if testing.Verbose() {
		log = testr.New(a.t).WithName(name)
	}
	o := Options{
		Node: name, Key: bytes.Repeat([]byte{7}, 32), Port: v1alpha1.HeartbeatPort, Changed: func() {}, Conflict: a.notice,
		Namespace: a.hosts[name], Log: log,
	}
	if a.hooks != nil {
		a.hooks(name, &o)
	}
	a.run(name, New(o))
}

func (a *agents) run(name string, l2 *Announcer) {
	l2.quorum.LingerFor = cmp.Or(a.linger, l2.quorum.LingerFor)
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

func (a *agents) set(change func(*announce.View)) {
	change(&a.view)
	for name, l2 := range a.list {
		view := a.view
		view.Node = name
		l2.Set(&view)
	}
}

// owner waits until one of them answers for the address, and says how long that took. A busy machine has half a minute: how long nobody
// answered is what observers know.
func (a *agents) owner(address netip.Addr, not string, within time.Duration) (string, time.Duration) {
	a.t.Helper()
	start, within := time.Now(), max(within, 30*time.Second)
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
	host, plugged := a.hosts["observer"]
	if !plugged {
		host = a.plug("observer", 200)
	}
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
