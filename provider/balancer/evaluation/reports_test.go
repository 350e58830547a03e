package evaluation

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// What an agent says counts while it reports, by a clock that is minutes away from this machine's, too; and no longer.
func TestReports_ClocksOfAgents(t *testing.T) {
	address := netip.MustParseAddr("192.0.2.1")
	for name, skew := range map[string]time.Duration{"the same": 0, "behind": -2 * time.Minute, "ahead": time.Hour} {
		t.Run(name, func(t *testing.T) {
			alive := objects.Liveness{}
			agent := &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
			agent.Status.Announcements = []v1alpha1.Announcement{{Address: address.String(), Level: v1alpha1.LevelL2}}
			now := start
			for range 10 {
				now = now.Add(20 * time.Second)
				agent = agent.DeepCopy()
				agent.Status.RenewTime = metav1.NewMicroTime(now.Add(skew))
				if r := ReadReports([]*v1alpha1.NodeAgent{agent}, nil, alive, now, nil); !r.Announced[address] || len(r.Agents) != 1 {
					t.Fatalf("after %s its report counts for nothing: %+v", now.Sub(start), r)
				}
			}
			now = now.Add(objects.LiveTime)
			if r := ReadReports([]*v1alpha1.NodeAgent{agent}, nil, alive, now, nil); r.Announced[address] || !slices.Equal(r.silent, []string{"a"}) {
				t.Errorf("it was silent for %s, and its report counts: %+v", objects.LiveTime, r)
			}
			if ReadReports(nil, nil, alive, now, nil); len(alive) > 0 {
				t.Errorf("its Node is gone, and remembered: %v", alive)
			}
		})
	}
}

// Ports on which an agent has said that something listens are taken while it was heard of lately: through a night of
// its machine, and through a manager that begins, which has heard of none. One that was uninstalled takes them no longer.
func TestReports_ListeningOfSilentAgents(t *testing.T) {
	agent := &v1alpha1.NodeAgent{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Status: v1alpha1.NodeAgentStatus{
			Listening: []string{"tcp/9100"}, RenewTime: metav1.NewMicroTime(start.Add(-30 * 24 * time.Hour)),
		},
	}
	agents, alive := []*v1alpha1.NodeAgent{agent}, objects.Liveness{}
	taken := func(alive objects.Liveness, now time.Time) bool {
		r := ReadReports(agents, nil, alive, now, nil)
		return NewMachines(nil, r.Lately, nil).listening["a"][port{9100, corev1.ProtocolTCP}]
	}
	for _, tt := range []struct {
		at   time.Duration
		want bool
	}{{0, true}, {8 * time.Hour, true}, {listeningTime, false}, {24 * time.Hour, false}} {
		if got := taken(alive, start.Add(tt.at)); got != tt.want {
			t.Errorf("silent for %s, its port is taken: %v", tt.at, got)
		}
	}
	if !taken(objects.Liveness{}, start.Add(24*time.Hour)) {
		t.Error("a manager that begins gives its port away")
	}
	agents[0] = agent.DeepCopy()
	agents[0].Status.RenewTime = metav1.NewMicroTime(start)
	if !taken(alive, start.Add(25*time.Hour)) {
		t.Error("its machine is back, and its port is free")
	}
}

// An agent announces an address for which a stranger answers, as another agent reports. The one of the Node that is believed
// first counts, so that the other one neither hides the stranger nor keeps the address from its Service.
func TestReports_OneAgentAgainstAnother(t *testing.T) {
	address := netip.MustParseAddr("192.0.2.1")
	report := func(name string, announces, warns bool) *v1alpha1.NodeAgent {
		agent := &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if announces {
			agent.Status.Announcements = []v1alpha1.Announcement{{Address: address.String(), Level: v1alpha1.LevelL2}}
		}
		if warns {
			agent.Status.Conflicts = []v1alpha1.AddressConflict{{Address: address.String(), MAC: "02:00:00:00:00:01", Interface: "eth0"}}
		}
		agent.Status.RenewTime = metav1.NewMicroTime(start)
		return agent
	}
	for _, tt := range []struct {
		name   string
		agents []*v1alpha1.NodeAgent
		want   bool // that it is announced
	}{
		{"the younger announces", []*v1alpha1.NodeAgent{report("old", false, true), report("young", true, false)}, false},
		{"the older announces", []*v1alpha1.NodeAgent{report("young", false, true), report("old", true, false)}, true},
		{"one does both, and defends it", []*v1alpha1.NodeAgent{report("young", true, true)}, true},
		{"an agent without a Node announces", []*v1alpha1.NodeAgent{report("gone", true, false), report("young", false, true)}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			alive := objects.Liveness{}
			var again []*v1alpha1.NodeAgent
			ReadReports(tt.agents, nil, alive, start, nil)
			for _, agent := range tt.agents {
				agent = agent.DeepCopy()
				agent.Status.RenewTime = metav1.NewMicroTime(start.Add(time.Second))
				again = append(again, agent)
			}
			r := ReadReports(again, nil, alive, start.Add(time.Second), map[string]int{"old": 0, "young": 1})
			if len(r.Agents) != len(tt.agents) {
				t.Fatalf("%d agents live", len(r.Agents))
			}
			if r.Announced[address] != tt.want {
				t.Errorf("it is announced: %t", r.Announced[address])
			}
		})
	}
}

// TestInputs_WithoutAgents: a cluster without agents is told so, and not that none of no voters reports.
func TestInputs_WithoutAgents(t *testing.T) {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	service.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	as := &allocator.Assignment{Service: service, By: map[bool]netip.Addr{false: netip.MustParseAddr("192.0.2.1")}}
	e := &Inputs{Now: start, Missing: map[Awaited]time.Time{{Service: allocator.NameOf(service)}: start.Add(-time.Hour)}}
	f := e.silence(as, false)
	if f == nil || f.ID != finding.NotAnnounced || !strings.Contains(f.Message, "there is no node agent") {
		t.Errorf("got %+v", f)
	}
}

// What an agent has reported counts as long as it renews its lease, and no longer.
func TestReports_Leases(t *testing.T) {
	address := netip.MustParseAddr("192.0.2.1")
	agent := &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	agent.Status.Announcements = []v1alpha1.Announcement{{Address: address.String(), Level: v1alpha1.LevelL2}}
	agents, alive := []*v1alpha1.NodeAgent{agent}, objects.Liveness{}
	var leases []*v1alpha1.NodeAgentLease
	for _, name := range []string{"a", "without a report"} {
		leases = append(leases, &v1alpha1.NodeAgentLease{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	now := start
	for range 10 {
		now = now.Add(20 * time.Second)
		leases[0].RenewTime = metav1.NewMicroTime(now)
		if r := ReadReports(agents, leases, alive, now, nil); !r.Announced[address] || len(r.Agents) != 1 || len(alive) != 1 {
			t.Fatalf("after %s its report counts for nothing: %+v", now.Sub(start), r)
		}
	}
	now = now.Add(objects.LiveTime)
	if r := ReadReports(agents, leases, alive, now, nil); r.Announced[address] || !slices.Equal(r.silent, []string{"a"}) {
		t.Errorf("its lease was not renewed for %s, and its report counts: %+v", objects.LiveTime, r)
	}
}

// A leader that begins finds the report of an agent that died long ago, as the leader before has marked it. What it announces counts for
// nothing: an address that it still names may be a stranger's by now, and would be announced without another probe.
func TestReports_SilentForALeaderThatBegins(t *testing.T) {
	address := netip.MustParseAddr("192.0.2.1")
	agent := &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: "dead"}}
	agent.Status.Announcements = []v1alpha1.Announcement{{Address: address.String(), Level: v1alpha1.LevelL2}}
	agent.Status.Listening = []string{"tcp/9100"}
	agent.Status.RenewTime = metav1.NewMicroTime(start.Add(-time.Hour))
	read := func() Reports { return ReadReports([]*v1alpha1.NodeAgent{agent}, nil, objects.Liveness{}, start, nil) }
	if r := read(); !r.Announced[address] {
		t.Fatalf("before it is marked: %+v", r)
	}
	agent.Annotations = map[string]string{v1alpha1.AgentSilentAnnotation: agent.Status.Renewed()}
	r := read()
	if r.Announced[address] || len(r.Agents) > 0 || r.Silent() != 1 {
		t.Errorf("it counts as live: %+v", r)
	}
	if !NewMachines(nil, r.Lately, nil).listening["dead"][port{9100, corev1.ProtocolTCP}] {
		t.Error("a machine that is off has lost its ports")
	}
}
