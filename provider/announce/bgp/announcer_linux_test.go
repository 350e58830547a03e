package bgp

import (
	"context"
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
)

// TestSpeaker_Drain has two Nodes: the router leaves the one that drains before its path goes, and keeps its session.
func TestSpeaker_Drain(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	r := newRouter(t, node1+strings.NewReplacer("node1", "node2", "10.9.0.11", "10.9.0.12").Replace(node1))
	s := newSpeaker(t)
	noError(t, s.SetPaths(paths(vip4)))
	s.SetRouters(t.Context(), []Router{routerAt("tor1", "10.9.0.1")})
	o := order{Addresses: nodeAddresses("2"), Routers: []Router{routerAt("tor1", "10.9.0.1")}, Paths: paths(vip4)}
	second, in := speakerProcess(t, o, unix.CLONE_NEWNET)
	r.wire(t, 2, second.Process.Pid)
	both := []string{"10.9.0.11", "10.9.0.12"}
	eventually(t, 15*time.Second, "both next hops", func() bool { return cmp.Equal(both, r.nextHops(t, vip4)) })

	noError(t, json.NewEncoder(in).Encode(order{Drain: true}))
	marked := func() bool {
		return strings.Contains(r.birdc("show route for "+vip4+" protocol node2 all"), "BGP.community: (65535,0)")
	}
	eventually(t, time.Second, "GRACEFUL_SHUTDOWN on the path", marked)
	gone := eventually(t, 2*time.Second, "one next hop", func() bool {
		return cmp.Equal([]string{"10.9.0.11"}, r.nextHops(t, vip4))
	})
	t.Logf("withdrawn %s after the community", gone)
	if got := r.birdc("show protocols node2"); !strings.Contains(got, "Established") {
		t.Errorf("the session went, too:\n%s", got)
	}

	noError(t, s.Drain(t.Context()))
	eventually(t, time.Second, "no next hop", func() bool { return len(r.nextHops(t, vip4)) == 0 })
	noError(t, s.SetPaths(paths(vip4, vip6)))
	if got := s.Announced(t.Context()); len(got) != 0 {
		t.Errorf("a draining speaker announces %v", got)
	}
	noError(t, s.Resume())
	eventually(t, time.Second, "both paths after Resume", func() bool {
		return len(r.nextHops(t, vip4)) == 1 && len(r.nextHops(t, vip6)) == 1
	})
}

// TestBGP_View follows an agent: a Service's address comes, the Node drains and comes back, the agent ends.
func TestBGP_View(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	r := newRouter(t, node1)
	ctx, cancel := context.WithCancel(t.Context())
	b := New(testr.New(t), func() {})
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1"}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: "10.9.0.11"}, {Type: corev1.NodeExternalIP, Address: "198.51.100.1"},
	}}}
	claim := func(address string, level v1alpha1.Level, nodes ...string) announce.Claim {
		return announce.Claim{Address: netip.MustParseAddr(address), Level: level, Pool: "lan", Candidates: nodes}
	}
	view := &announce.View{
		Node:  "w1",
		Nodes: map[string]*corev1.Node{"w1": node},
		Pools: map[string]*v1alpha1.AddressPool{"lan": {Spec: v1alpha1.AddressPoolSpec{
			BGP: v1alpha1.PoolBGP{Communities: []string{"64512:7"}},
		}}},
		Claims: []announce.Claim{
			claim("192.0.2.50", v1alpha1.LevelBGP, "w1", "w2"),
			claim("192.0.2.51", v1alpha1.LevelL2, "w1"),
			claim("192.0.2.52", v1alpha1.LevelBGP, "w2"),
		},
	}
	reported := func() (status v1alpha1.NodeAgentStatus) {
		b.Report(&status)
		return status
	}
	b.Set(view)
	if diff := cmp.Diff(v1alpha1.NodeAgentStatus{}, reported()); diff != "" {
		t.Errorf("without a BGPPeer: %s", diff)
	}

	tor := routerAt("tor1", "10.9.0.1")
	with := *view
	with.Peers = map[string]*v1alpha1.BGPPeer{"tor1": {ObjectMeta: metav1.ObjectMeta{Name: "tor1"}, Spec: tor.BGPPeerSpec}}
	b.Set(&with)
	want := v1alpha1.NodeAgentStatus{
		Sessions:      []v1alpha1.BGPSession{{Peer: "tor1", State: "Established", Advertised: 1}},
		Announcements: []v1alpha1.Announcement{{Address: "192.0.2.50", Level: v1alpha1.LevelBGP}},
	}
	eventually(t, 5*time.Second, "the report", func() bool { return cmp.Equal(want, reported()) })
	eventually(t, time.Second, "the path", func() bool { return len(r.nextHops(t, vip4)) == 1 })
	if route := r.birdc("show route for " + vip4 + " all"); !strings.Contains(route, "(64512,7)") {
		t.Error(route)
	}

	other := &v1alpha1.NodeAgent{Status: v1alpha1.NodeAgentStatus{Sessions: want.Sessions}}
	drained := with
	drained.Draining, drained.Agents = true, map[string]*v1alpha1.NodeAgent{"w2": other}
	b.Set(&drained)
	eventually(t, 2*time.Second, "withdrawn", func() bool { return len(r.nextHops(t, vip4)) == 0 })
	b.Set(&with)
	eventually(t, 2*time.Second, "announced again", func() bool { return len(r.nextHops(t, vip4)) == 1 })

	b.Drain(t.Context())
	cancel()
	noError(t, <-ended)
	time.Sleep(100 * time.Millisecond)
	if len(r.nextHops(t, vip4)) == 0 {
		t.Error("the router has no path when the agent is only started again")
	}
}
