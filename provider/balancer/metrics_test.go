package balancer

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/evaluation"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// What /metrics shows of a pass, of pools and of peers; and nothing before the first pass.
func TestMetrics(t *testing.T) {
	b := newOffline(t)
	b.RegisterMetrics()
	if got := gathered(t); len(got) > 0 {
		t.Errorf("before the first pass it shows %v", got)
	}
	pool := &v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	pool.Status.Assigned, pool.Status.Quarantined, pool.Status.Available = 3, 1, "12"
	fresh := &v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: "fresh"}}
	peer := &v1alpha1.BGPPeer{ObjectMeta: metav1.ObjectMeta{Name: "tor"}}
	peer.Status.Nodes, peer.Status.Established = 3, 2
	pools, peers := b.caches.pools.GetStore(), b.caches.peers.GetStore()
	for _, err := range []error{pools.Add(pool), pools.Add(fresh), peers.Add(peer)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	b.counts.Store(countsOf(inputsOfTwoOwners(), map[types.NamespacedName]*evaluation.Status{
		{Name: "silent"}: {Problem: finding.AgentSilent.Errorf("x")}, {Name: "announced"}: {Service: &corev1.Service{}},
		{Name: "without endpoint"}: {Problem: finding.NoReadyEndpoint.Errorf("x")},
	}))
	got := gathered(t)
	for series, want := range map[string]float64{
		"node_agents live": 2, "node_agents silent": 1, "services_unannounced": 1, "addresses_contested": 1,
		"pool_addresses p assigned": 3, "pool_addresses p available": 12, "pool_addresses p quarantined": 1,
		"pool_addresses fresh assigned": 0, "pool_addresses fresh quarantined": 0,
		"bgp_sessions tor established": 2, "bgp_sessions tor down": 1,
	} {
		if value, there := got[series]; !there || value != want {
			t.Errorf("%s is %v (there: %t), want %v", series, value, there, want)
		}
		delete(got, series)
	}
	if len(got) > 0 {
		t.Errorf("it shows more: %v", got)
	}
}

// inputsOfTwoOwners is of two agents that announce one address at L2 and one by BGP, where two are as it should be, beside an
// agent that does not report.
func inputsOfTwoOwners() *evaluation.Inputs {
	now := time.Now()
	var agents []*v1alpha1.NodeAgent
	alive := objects.Liveness{}
	for _, name := range []string{"a", "b", "silent"} {
		agent := &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: name}}
		agent.Status.RenewTime = metav1.NewMicroTime(now)
		alive.Observe(now.Add(-time.Hour), agent)
		if name != "silent" {
			agent.Status.RenewTime = metav1.NewMicroTime(now.Add(time.Second))
			agent.Status.Announcements = []v1alpha1.Announcement{
				{Address: "192.0.2.1", Level: v1alpha1.LevelL2}, {Address: "192.0.2.2", Level: v1alpha1.LevelBGP},
			}
		}
		agents = append(agents, agent)
	}
	return &evaluation.Inputs{Reports: evaluation.ReadReports(agents, nil, alive, now, nil)}
}

// gathered are the series of this package, without their prefix.
func gathered(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		name, ours := strings.CutPrefix(family.GetName(), subsystem+"_")
		for _, metric := range family.GetMetric() {
			words := []string{name}
			for _, label := range metric.GetLabel() {
				words = append(words, label.GetValue())
			}
			if ours {
				got[strings.Join(words, " ")] = metric.GetGauge().GetValue()
			}
		}
	}
	return got
}

// A machine without an agent that answers is a second owner.
func TestMetrics_Stranger(t *testing.T) {
	agent := &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	agent.Status.Conflicts = []v1alpha1.AddressConflict{{Address: "192.0.2.9", MAC: "52:54:00:00:00:09", Interface: "eth0"}}
	r := evaluation.ReadReports([]*v1alpha1.NodeAgent{agent}, nil, objects.Liveness{}, time.Now(), nil)
	if r.Contested() != 1 || r.Announced[netip.MustParseAddr("192.0.2.9")] {
		t.Errorf("contested: %d", r.Contested())
	}
}
