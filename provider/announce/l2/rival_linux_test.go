package l2

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
	"github.com/ccmadm/ccmadm/provider/announce/quorum"
)

// Any machine can send a frame with the MAC of a Node. The owner keeps the address, and reports the conflict.
func TestL2_FrameWithTheMACOfANode(t *testing.T) {
	address := netip.MustParseAddr("10.8.0.100")
	a := newAgents(t, announce.Claim{Address: address, Probed: true})
	a.view.Claims[0].Candidates = []string{"c"} // of two agents, the one with the greater name would let it go
	for _, name := range a.view.Members {
		a.reportInterface(name)
	}
	a.startAll()
	a.owner(address, "", 10*time.Second)
	time.Sleep(settled + 500*time.Millisecond)
	mac, err := net.ParseMAC(a.view.Agents["a"].Status.Interfaces[0].MAC)
	if err != nil {
		t.Fatal(err)
	}
	s := a.stranger(netip.MustParseAddr("10.8.0.101"))
	waitFor(t, 10*time.Second, func() bool {
		for _, p := range gratuitousARP(mac, address) {
			if err := s.sendARP(broadcast(), p); err != nil {
				t.Fatal(err)
			}
		}
		_, conflict := a.announced(address)
		return conflict
	})
	if counts := a.list["c"].Counts(); counts.Takeovers != 1 && !raceDetector || counts.Owned != 1 {
		t.Errorf("the owner took the address %d times, and owns %d", counts.Takeovers, counts.Owned)
	}
}

// Should another agent say in its heartbeats, too, that it owns the address, the one with the greater name lets it go.
func TestConflict_Rival(t *testing.T) {
	address := netip.MustParseAddr("192.0.2.50")
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	both := []string{"n1", "n2"}
	for self, other := range map[string]string{"n2": "n1", "n1": "n2"} {
		l := New(Options{Node: self, Log: logr.Discard(), Changed: func() {}})
		rival := quorum.New(other, 1, 0)
		l.quorum = quorum.New(self, 1, 0)
		l.agents = map[string]string{mac.String(): other}
		l.view = &announce.View{Agents: map[string]*v1alpha1.NodeAgent{other: {}}}
		o := &ownership{
			claim: announce.Claim{Address: address}, announced: true, segment: &segment{name: "lan"},
			defended: quorum.Instant(time.Hour), // it sends nothing
		}
		l.owned[address] = o
		var now quorum.Instant
		for ; now < quorum.Instant(3*time.Second); now += quorum.HeartbeatInterval {
			for _, m := range []*quorum.Member{l.quorum, rival} {
				m.SetMembers(now, both, both, nil)
			}
			l.quorum.Reconcile(now, nil)
			rival.Reconcile(now, []quorum.Claim{{Address: address, Candidates: []string{other}}})
			for from, to := range map[*quorum.Member]*quorum.Member{l.quorum: rival, rival: l.quorum} {
				from.Tick(now)
				for _, d := range from.Datagrams(now) {
					to.Receive(now, d)
				}
			}
			if now == quorum.Instant(time.Second) { // before members may grant anything
				l.conflict(now+settled, o, frame{segment: o.segment, mac: mac, has: address})
				if l.owned[address] == nil {
					t.Errorf("%s has let the address go, for a frame alone", self)
				}
			}
		}
		l.conflict(now, o, frame{segment: o.segment, mac: mac, has: address})
		if keeps := l.owned[address] != nil; keeps != (self < other) {
			t.Errorf("%s keeps the address: %t", self, keeps)
		}
	}
}

// Of two Nodes that report the same MAC, and of this Node itself, it matters which counts.
func TestAgentsByMAC(t *testing.T) {
	agent := func(macs ...string) *v1alpha1.NodeAgent {
		a := &v1alpha1.NodeAgent{}
		for _, mac := range macs {
			a.Status.Interfaces = append(a.Status.Interfaces, v1alpha1.AgentInterface{MAC: mac})
		}
		return a
	}
	got := agentsByMAC(&announce.View{Agents: map[string]*v1alpha1.NodeAgent{
		"a": agent("1", "2"), "b": agent("3"), "c": agent("2", "3", "4"), "self": agent("4", "5"),
	}}, "self")
	for mac, want := range map[string]string{"1": "a", "2": "a", "3": "b", "4": "c", "5": ""} {
		if got[mac] != want {
			t.Errorf("MAC %s is that of %q, want %q", mac, got[mac], want)
		}
	}
}
