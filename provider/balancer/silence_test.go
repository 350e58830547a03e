package balancer

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// Who has no vote any more, as agents report, are silent, and come back. The manager looks every ten seconds.
func TestHearing(t *testing.T) {
	const minute = time.Minute
	tests := map[string]struct {
		reports func(node string, at time.Duration) bool
		restart time.Duration            // of the manager
		want    map[string]time.Duration // when the vote is taken, at the latest 20 s later
	}{
		"all report": {reports: func(string, time.Duration) bool { return true }},
		"one is dead": {
			reports: func(node string, at time.Duration) bool { return node != "a" || at < minute },
			want:    map[string]time.Duration{"a": 6 * minute},
		},
		"all but one are dead": {
			reports: func(node string, at time.Duration) bool { return node == "c" || at < minute },
			want:    map[string]time.Duration{"a": 6 * minute, "b": 6 * minute},
		},
		"one never reported": {
			reports: func(node string, _ time.Duration) bool { return node != "a" },
			want:    map[string]time.Duration{"a": 5 * minute},
		},
		"the API server is away": {
			reports: func(_ string, at time.Duration) bool { return at < 2*minute || at > 12*minute },
		},
		"the API server is away, and one does not come back": {
			reports: func(node string, at time.Duration) bool { return at < 2*minute || at > 12*minute && node != "a" },
			want:    map[string]time.Duration{"a": 17 * minute},
		},
		"one comes back four minutes after the others": {
			reports: func(node string, at time.Duration) bool {
				return at < 2*minute || at > 12*minute && node != "a" || at > 16*minute
			},
		},
		"the manager begins anew": {
			reports: func(node string, at time.Duration) bool { return node != "a" || at < minute },
			restart: 5 * minute,
			want:    map[string]time.Duration{"a": 10 * minute},
		},
		"one is silent, comes back, and is silent again": {
			reports: func(node string, at time.Duration) bool {
				return node != "a" || at < minute || at > 8*minute && at < 9*minute
			},
			want: map[string]time.Duration{"a": 6 * minute, "a again": 14 * minute},
		},
		"nobody reports": {reports: func(_ string, at time.Duration) bool { return at < minute }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			agents := []*v1alpha1.NodeAgent{}
			for _, node := range []string{"a", "b", "c"} {
				agents = append(agents, &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: node}})
			}
			fresh := func() silenceWatch { return silenceWatch{liveness: objects.Liveness{}, told: map[string]string{}} }
			h, taken := fresh(), map[string]time.Duration{}
			for at := time.Duration(0); at < 20*minute; at += 10 * time.Second {
				now := start.Add(at)
				if at == tt.restart {
					h = fresh()
				}
				for _, agent := range agents {
					if at%(20*time.Second) == 0 && tt.reports(agent.Name, at) {
						agent.Status.RenewTime = metav1.NewMicroTime(now.Add(-time.Hour)) // its clock is wrong
						if agent.Silent() {
							t.Errorf("%s reports, and is silent", agent.Name)
						}
					}
				}
				for _, agent := range h.silent(now, agents, nil) {
					key := agent.Name
					if _, before := taken[key]; before {
						key += " again"
					}
					taken[key] = at
					agent.Annotations = map[string]string{v1alpha1.AgentSilentAnnotation: agent.Status.Renewed()}
					if !agent.Silent() {
						t.Errorf("%s is marked, and is not silent", agent.Name)
					}
				}
			}
			for key, at := range taken {
				if want, is := tt.want[key]; !is || at < want-20*time.Second || at > want+20*time.Second {
					t.Errorf("%s has no vote from %s; want %v", key, at, tt.want)
				}
			}
			if len(taken) != len(tt.want) {
				t.Errorf("%v have no vote; want %v", taken, tt.want)
			}
		})
	}
}

// Where the API server does not let the manager say so, it asks once for each silence.
func TestHearing_Refused(t *testing.T) {
	start := time.Now()
	dead, alive := &v1alpha1.NodeAgent{}, &v1alpha1.NodeAgent{}
	dead.Name, alive.Name = "dead", "alive"
	h := silenceWatch{liveness: objects.Liveness{}, told: map[string]string{}}
	var silent []*v1alpha1.NodeAgent
	look := func(from, to time.Duration) {
		for at := from; at <= to; at += 20 * time.Second {
			alive.Status.RenewTime = metav1.NewMicroTime(start.Add(at))
			silent = h.silent(start.Add(at), []*v1alpha1.NodeAgent{dead, alive}, nil)
		}
	}
	if look(0, voteTime); !slices.Contains(silent, dead) {
		t.Fatal("it is not silent: nothing is tested")
	}
	h.told[dead.Name] = dead.Status.Renewed()
	if look(voteTime, 2*voteTime); len(silent) > 0 {
		t.Error("it was refused, and is asked again")
	}
	dead.Status.RenewTime = metav1.NewMicroTime(start)
	if look(2*voteTime, 3*voteTime); !slices.Contains(silent, dead) {
		t.Error("another silence is not asked for")
	}
}

// An agent that renews its lease alone keeps its vote, until it renews nothing, also where no agent writes anything but leases. While the
// API server is away, no time passes for any of them.
func TestHearing_Leases(t *testing.T) {
	const minute = time.Minute
	start := time.Now()
	var agents []*v1alpha1.NodeAgent
	var leases []*v1alpha1.NodeAgentLease
	for _, name := range []string{"dead", "alive"} {
		agents = append(agents, &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: name}})
		leases = append(leases, &v1alpha1.NodeAgentLease{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	leases = append(leases, &v1alpha1.NodeAgentLease{ObjectMeta: metav1.ObjectMeta{Name: "without a report"}})
	h := silenceWatch{liveness: objects.Liveness{}, told: map[string]string{}}
	const away, back, dies = 10 * minute, 20 * minute, 30 * minute
	for at := time.Duration(0); at <= dies+voteTime+minute; at += 20 * time.Second {
		for _, lease := range leases {
			if (at < away || at > back) && (lease.Name != "dead" || at <= dies) {
				lease.RenewTime = metav1.NewMicroTime(start.Add(at - time.Hour)) // its clock is wrong
			}
		}
		silent := h.silent(start.Add(at), agents, leases)
		if want := at >= dies+voteTime; slices.Contains(silent, agents[0]) != want || slices.Contains(silent, agents[1]) {
			t.Fatalf("after %s these are silent: %v; the dead one: %t", at, silent, want)
		}
	}
}
