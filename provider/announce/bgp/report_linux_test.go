package bgp

import (
	"context"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
)

// TestBGP_Addresses has a Node that gets its addresses one after the other.
func TestBGP_Addresses(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	r := newRouter(t, node1)
	b, _ := runUntilEnd(t, func() {})
	set := func(addresses ...string) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1"}}
		for _, a := range addresses {
			address := corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a}
			node.Status.Addresses = append(node.Status.Addresses, address)
		}
		view := &announce.View{Node: "w1", Nodes: map[string]*corev1.Node{"w1": node}, Peers: map[string]*v1alpha1.BGPPeer{
			"tor1": {ObjectMeta: metav1.ObjectMeta{Name: "tor1"}, Spec: routerAt("tor1", "10.9.0.1").BGPPeerSpec},
		}}
		for _, address := range []string{"192.0.2.50", "2001:db8:5::50"} {
			view.Claims = append(view.Claims, announce.Claim{
				Address: netip.MustParseAddr(address), Level: v1alpha1.LevelBGP, Candidates: []string{"w1"},
			})
		}
		b.Set(view)
	}
	set()
	want := []v1alpha1.BGPSession{{Peer: "tor1", State: "Idle", Message: "open sessions of Node/w1: it has no InternalIP"}}
	eventually(t, time.Second, "the report says why there is no session", func() bool {
		var status v1alpha1.NodeAgentStatus
		b.Report(&status)
		return cmp.Equal(want, status.Sessions)
	})
	set("10.9.0.11")
	eventually(t, 10*time.Second, "IPv4 is announced", func() bool { return len(r.nextHops(t, vip4)) == 1 })
	set("10.9.0.11", "fd09::11")
	eventually(t, 15*time.Second, "IPv6 is announced, too", func() bool {
		if len(r.nextHops(t, vip4)) == 0 {
			t.Fatal("IPv4 is lost meanwhile")
		}
		return cmp.Equal(r.nextHops(t, vip6), []string{"fd09::11"})
	})
	set() // for a moment
	time.Sleep(100 * time.Millisecond)
	if got := r.birdc("show protocols node1"); !strings.Contains(got, "Established") {
		t.Error(got)
	}
}

// runUntilEnd runs the announcer of Node w1 until the test ends.
func runUntilEnd(t *testing.T, changed func()) (*Announcer, *corev1.Node) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	b := New(testr.New(t), changed)
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		noError(t, <-ended)
	})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1"}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.9.0.11"}}
	return b, node
}

// TestBGP_Refused has routers that refuse the Node again and again: the report says why, and does not change with each attempt.
func TestBGP_Refused(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	hasty := strings.Replace(node1, "hold time", "error wait time 1, 1; hold time", 1)
	second := strings.NewReplacer("node1", "second", "10.9.0.1 as", "10.9.0.2 as", "as 64512", "as 64513").Replace(hasty)
	newRouter(t, strings.Replace(hasty, "as 64500", "as 64501", 1)+second)
	var changes atomic.Int32
	b, node := runUntilEnd(t, func() { changes.Add(1) })
	peers := map[string]*v1alpha1.BGPPeer{}
	for name, address := range map[string]string{"tor1": "10.9.0.1", "tor2": "10.9.0.2", "tor3": "10.9.0.3"} {
		peers[name] = &v1alpha1.BGPPeer{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: routerAt(name, address).BGPPeerSpec}
	}
	b.Set(&announce.View{Node: "w1", Nodes: map[string]*corev1.Node{"w1": node}, Peers: peers})
	want := []v1alpha1.BGPSession{
		{Peer: "tor1", State: "Active", Message: "10.9.0.1:179 is not in AS 64500 (asn)"},
		{Peer: "tor2", State: "Active", Message: "10.9.0.2:179 rejects this Node: it may expect another AS than 64512 (localASN)"},
	}
	eventually(t, 20*time.Second, "the report says why there are no sessions", func() bool {
		var status v1alpha1.NodeAgentStatus
		b.Report(&status)
		return len(status.Sessions) == 3 && cmp.Equal(want, status.Sessions[:2]) && status.Sessions[2].Message != ""
	})
	changes.Store(0)
	time.Sleep(20 * time.Second)
	if n := changes.Load(); n > 1 { // a connection where nothing answers ends in more than one way
		t.Errorf("in 20 s the report changed %d times", n)
	}
}

// TestBGP_Flaps has a router that ends the session again and again: it is reported as lost, and nothing as announced to it, until it lasts.
func TestBGP_Flaps(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	r := newRouter(t, node1)
	b, node := runUntilEnd(t, func() {})
	b.Set(&announce.View{
		Node: "w1", Nodes: map[string]*corev1.Node{"w1": node},
		Claims: []announce.Claim{{Address: netip.MustParseAddr("192.0.2.50"), Level: v1alpha1.LevelBGP, Candidates: []string{"w1"}}},
		Peers: map[string]*v1alpha1.BGPPeer{
			"tor1": {ObjectMeta: metav1.ObjectMeta{Name: "tor1"}, Spec: routerAt("tor1", "10.9.0.1").BGPPeerSpec},
		},
	})
	reports := func(established bool, announced int) bool { // between two sessions the state may be Idle or Active
		var status v1alpha1.NodeAgentStatus
		b.Report(&status)
		return len(status.Sessions) == 1 && (status.Sessions[0].State == stateEstablished) == established && len(status.Announcements) == announced
	}
	for range freeLosses {
		eventually(t, 15*time.Second, "the session is reported", func() bool { return reports(true, 1) })
		r.birdc("restart node1")
		eventually(t, time.Second, "the loss is reported", func() bool { return reports(false, 0) })
	}
	eventually(t, 15*time.Second, "the path arrives", func() bool { return len(r.nextHops(t, vip4)) == 1 })
	for start := time.Now(); time.Since(start) < 2*sessionsEvery; time.Sleep(50 * time.Millisecond) {
		if !reports(false, 0) {
			t.Fatal("a session that does not last is reported as established, or an address as announced")
		}
	}
}

// TestSpeaker_Close_Drained ends a speaker whose routers have agreed to a graceful restart: the session goes with a word.
func TestSpeaker_Close_Drained(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	r := newRouter(t, node1)
	s, err := NewSpeaker(t.Context(), testr.New(t), nodeAddresses("1"), func() {})
	noError(t, err)
	s.SetRouters(t.Context(), []Router{routerAt("tor1", "10.9.0.1")})
	noError(t, s.SetPaths(paths(vip4)))
	eventually(t, 10*time.Second, "the path arrives", func() bool { return len(r.nextHops(t, vip4)) == 1 })
	noError(t, s.Drain(t.Context()))
	noError(t, s.Close(t.Context()))
	eventually(t, time.Second, "the router was told", func() bool {
		return strings.Contains(r.birdc("show protocols node1"), "Received: Peer de-configured")
	})
}

// TestSpeaker_Announced_Family has a router that carries IPv4 only.
func TestSpeaker_Announced_Family(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	newRouter(t, strings.Replace(node1, "ipv6 { import all; export none; };", "", 1))
	s := newSpeaker(t)
	s.SetRouters(t.Context(), []Router{routerAt("tor1", "10.9.0.1")})
	noError(t, s.SetPaths(paths(vip4, vip6)))
	want := v1alpha1.BGPSession{Peer: "tor1", State: "Established", Advertised: 1}
	eventually(t, 10*time.Second, "one path of the session", func() bool { return cmp.Equal(want, sessionOf(t, s, "tor1")) })
	if diff := cmp.Diff([]string{vip4}, prefixTexts(s.Announced(t.Context()))); diff != "" {
		t.Error(diff)
	}
	if got := s.Announced(t.Context(), "tor1"); len(got) > 0 {
		t.Errorf("without the only router %v are announced", got)
	}
}

func prefixTexts(prefixes []netip.Prefix) []string {
	var texts []string
	for _, p := range prefixes {
		texts = append(texts, p.String())
	}
	return texts
}
