package network

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Each row says of w1 and of w2 why they have the address of shop/web, or have it not.
func TestWhy_Because(t *testing.T) {
	const kept = "a Node keeps an address while it may have it; ready to take over: w2"
	tests := []struct {
		name   string
		change func(*Snapshot)
		w1, w2 string
	}{
		{"one of two", func(*Snapshot) {}, kept, "w1 has it, and keeps it while it may have it"},
		{
			"the only one",
			func(s *Snapshot) { s.Nodes[2].Labels = map[string]string{v1alpha1.DrainLabel: "true"} },
			"no other Node may have it", "",
		},
		{
			"cordoned",
			func(s *Snapshot) { s.Nodes[1].Spec.Unschedulable, s.Nodes[2].Spec.Unschedulable = true, true },
			kept + "; cordoned; neither that nor `kubectl drain` moves an address: " +
				"`kubectl label node w1 ccmadm.dev/drain=true` does",
			"w1 has it, and keeps it while it may have it",
		},
		{
			"the one that has it is preferred", func(s *Snapshot) { s.prefer("w1") },
			"a preferred Node, and keeps the address while it may have it; ready to take over: w2", "w1 has it, and keeps it while it may have it",
		},
		{
			"the other is preferred", func(s *Snapshot) { s.prefer("w2") },
			"w2 is preferred, and takes the address once it could have announced it without a gap for 1m0s",
			"preferred; takes the address from w1 once it could have announced it without a gap for 1m0s",
		},
		{"no Node is preferred that may have it", func(s *Snapshot) { s.prefer("w7") }, kept, "w1 has it, and keeps it while it may have it"},
		{
			"the hook fails",
			func(s *Snapshot) {
				s.Agents[1].Status.Announcements[0].Hook = "answers 503 Service Unavailable, since 2026-11-28T13:00:00Z\x1b[2J"
			},
			kept + "; the hook of AddressPool/lan answers 503 Service Unavailable, since 2026-11-28T13:00:00Z",
			"w1 has it, and keeps it while it may have it",
		},
		{"nobody", func(s *Snapshot) { s.Agents[1].Status.Announcements = nil }, "", ""},
		{"BGP", func(s *Snapshot) {
			s.Claims[0].Annotations[v1alpha1.ClaimLevelAnnotation] = string(v1alpha1.LevelBGP)
			s.Agents[1].Status.Announcements[0].Level = v1alpha1.LevelBGP
			for i := range s.Agents {
				s.Agents[i].Status.Sessions = []v1alpha1.BGPSession{{Peer: "tor1", State: "Established"}}
			}
		}, "level BGP: every Node that may announce it does", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := shop()
			tt.change(s)
			nodes := s.Why("shop/web").Nodes
			if diff := cmp.Diff([]string{tt.w1, tt.w2}, []string{nodes[1].Because, nodes[2].Because}); diff != "" {
				t.Errorf("why they have it (-want +got):\n%s", diff)
			}
		})
	}
}

// prefer has the pool prefer a Node by its name.
func (s *Snapshot) prefer(node string) {
	for i := range s.Nodes {
		if s.Nodes[i].Labels == nil {
			s.Nodes[i].Labels = map[string]string{}
		}
		s.Nodes[i].Labels["name"] = s.Nodes[i].Name
	}
	s.Pools[0].Spec.PreferredNodes = v1alpha1.PoolPreferredNodes{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"name": node}}, ReturnAfter: metav1.Duration{Duration: time.Minute},
	}
}

// A machine that lost its power has a report that is not a minute old; the one that took over has a newer one. Both
// commands name the latter only.
func TestWhy_PowerCut(t *testing.T) {
	s := shop()
	s.Agents[1].Status.RenewTime = metav1.NewMicroTime(now.Add(-50 * time.Second))
	s.Agents[2].Status.Announcements = s.Agents[1].Status.Announcements
	why := s.Why("shop/web")
	if diff := cmp.Diff([]string{"w2"}, why.Announcers); diff != "" {
		t.Errorf("announcers (-want +got):\n%s", diff)
	}
	got := map[string][]string{}
	for _, v := range why.Nodes {
		if len(v.Announces) > 0 {
			got[v.Node] = v.Announces
		}
	}
	if diff := cmp.Diff(map[string][]string{"w2": {"192.0.2.50 on eth0"}}, got); diff != "" {
		t.Errorf("what Nodes announce (-want +got):\n%s", diff)
	}
	if want := "w2 reports it since; the report of this Node is 50s old"; why.Nodes[1].Because != want {
		t.Errorf("w1: got %q, want %q", why.Nodes[1].Because, want)
	}
}
