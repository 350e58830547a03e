package l2

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
	"github.com/ccmadm/ccmadm/provider/announce/quorum"
)

// hold gives a host an address of its own, for which its kernel answers, as for programs that put it on interfaces.
func (a *agents) hold(name string, address netip.Addr, hold bool) {
	a.t.Helper()
	a.reportInterface(name)
	a.at(a.hosts[name], func() error {
		link, err := netlink.LinkByName("lan-" + name)
		if err != nil {
			return err
		}
		mask := net.CIDRMask(address.BitLen(), address.BitLen())
		own := &netlink.Addr{IPNet: &net.IPNet{IP: address.AsSlice(), Mask: mask}, Flags: 0x02} // IFA_F_NODAD
		if hold {
			return netlink.AddrAdd(link, own)
		}
		return netlink.AddrDel(link, own)
	})
}

// announced says whether any agent reports that it announces the address, and whether any reports a conflict.
func (a *agents) announced(address netip.Addr) (announced, conflict bool) {
	for _, l2 := range a.list {
		status := v1alpha1.NodeAgentStatus{}
		l2.Report(&status)
		for _, x := range status.Announcements {
			announced = announced || x.Address == address.String()
		}
		for _, x := range status.Conflicts {
			conflict = conflict || x.Address == address.String()
		}
	}
	return announced, conflict
}

// Another program on a Node, as kube-vip or a speaker of MetalLB, has the address. As long as it answers no agent does;
// it is said; and soon after it has gone, an agent answers.
func TestL2_TakesOver(t *testing.T) {
	for _, text := range []string{"10.8.0.100", "fd08::100"} {
		t.Run(text, func(t *testing.T) {
			address := netip.MustParseAddr(text)
			a := newAgents(t, announce.Claim{Address: address})
			a.view.Claims[0].Candidates = []string{"b", "c"} // none of them hears its own machine
			a.hold("a", address, true)
			o := a.observe(address)
			a.startAll()
			for began := time.Now(); time.Since(began) < 4*time.Second; time.Sleep(5 * time.Millisecond) {
				if announced, _ := a.announced(address); announced {
					t.Fatalf("an agent answers for it after %s, and so does the other program", time.Since(began))
				}
			}
			waitFor(t, 30*time.Second, func() bool { _, conflict := a.announced(address); return conflict }) // it is said
			began := time.Now()
			if _, back := o.gaps(began.Add(-time.Second)); back {
				t.Error("two have answered")
			}
			a.hold("a", address, false)
			owner, took := a.owner(address, "", 5*time.Second)
			time.Sleep(200 * time.Millisecond)
			gap, back := o.gaps(began)
			t.Logf("%s has it after %s; no answer for %s", owner, took, gap)
			if limit := within(2 * time.Second); gap > limit || back {
				t.Errorf("no answer for %s, two owners: %t", gap, back)
			}
			waitFor(t, 30*time.Second, func() bool { _, conflict := a.announced(address); return !conflict }) // no more
		})
	}
}

// Packets that mean nothing, thousands of them, of every kind that is listened to, change nothing.
func TestL2_Garbage(t *testing.T) {
	address := netip.MustParseAddr("10.8.0.100")
	a := newAgents(t, announce.Claim{Address: address, Probed: true})
	a.startAll()
	owner, _ := a.owner(address, "", 10*time.Second)
	o := a.observe(address)
	s := a.stranger(netip.MustParseAddr("10.8.0.101"))
	var hearts net.Conn
	a.at(a.hosts["stranger"], func() (err error) {
		hearts, err = net.Dial("udp", netip.AddrPortFrom(a.view.Addresses[owner], v1alpha1.HeartbeatPort).String())
		return err
	})
	t.Cleanup(func() { _ = hearts.Close() })
	time.Sleep(time.Second) // its interface takes a moment
	random, began := rand.New(rand.NewPCG(1, 2)), time.Now()
	for n := range 3000 {
		if n%100 == 0 { // it is no flood, of which a busy machine would be late with what the agents say
			refused := func() uint64 { return a.list[owner].Counts().Forged }
			for before, last := refused(), time.Now(); refused() < uint64(2*n) && time.Since(last) < time.Second; time.Sleep(10 * time.Millisecond) {
				if now := refused(); now > before {
					before, last = now, time.Now()
				}
			}
		}
		claim := gratuitousARP(s.mac, address)[0].encode()
		claim = claim[:random.IntN(len(claim))] // cut short
		junk := make([]byte, random.IntN(128))
		for i := range junk {
			junk[i] = byte(random.Uint32())
		}
		for _, data := range [][]byte{claim, junk, append([]byte{0, 1, 8, 0, 6, 4}, junk...)} {
			if len(data) > 0 {
				_ = s.send(broadcast(), data)
			}
		}
		_, _ = hearts.Write(junk)
		_, _ = hearts.Write((&quorum.Datagram{From: "a", To: owner}).Encode([]byte("another key")))
	}
	time.Sleep(500 * time.Millisecond)
	gap, back := o.gaps(began)
	if now, _ := a.owner(address, "", time.Second); now != owner || back {
		t.Errorf("the address has moved from %s to %s", owner, now)
	}
	t.Logf("no answer for %s; %d datagrams refused", gap, a.list[owner].Counts().Forged)
	if a.list[owner].Counts().Forged == 0 {
		t.Error("no datagram was refused")
	}
	if gap > within(time.Second) {
		t.Errorf("no answer for %s", gap)
	}
	if _, conflict := a.announced(address); conflict {
		t.Error("a packet that was cut short makes a conflict")
	}
}

// A Node that has no address is cut off, and comes back: nothing moves.
func TestL2_FollowerPartition(t *testing.T) {
	address := netip.MustParseAddr("10.8.0.100")
	a := newAgents(t, announce.Claim{Address: address, Probed: true})
	a.startAll()
	owner, _ := a.owner(address, "", 10*time.Second)
	follower := map[string]string{"a": "b", "b": "c", "c": "a"}[owner]
	o := a.observe(address)
	time.Sleep(300 * time.Millisecond)
	began := time.Now()
	a.port(follower, false)
	time.Sleep(3 * time.Second)
	a.port(follower, true)
	time.Sleep(2 * time.Second)
	gap, back := o.gaps(began)
	if now, _ := a.owner(address, "", time.Second); now != owner || back || a.list[follower].Owns(address) {
		t.Errorf("the address has moved from %s to %s", owner, now)
	}
	if gap > within(300*time.Millisecond) {
		t.Errorf("no answer for %s", gap)
	}
}
