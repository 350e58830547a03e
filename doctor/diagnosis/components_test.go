package diagnosis

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/doctor/components"
	"github.com/ccmadm/ccmadm/templates"
)

// withProxy has kube-proxy on each Node, and none of its pods ready on those that are named.
func withProxy(failing ...string) func(*Snapshot) {
	return func(s *Snapshot) {
		w := components.Workload{Kind: "DaemonSet", Name: components.Proxy, Wanted: int32(len(s.Nodes)), Observed: true}
		w.Ready = w.Wanted - int32(len(failing))
		seen := &components.Seen{}
		for _, n := range s.Nodes {
			w.Nodes = append(w.Nodes, n.Name)
		}
		for _, name := range failing {
			p := pod("kube-proxy-"+name, name)
			p.CreationTimestamp = ago(time.Hour)
			p.OwnerReferences = []metav1.OwnerReference{{Kind: w.Kind, Name: w.Name}}
			p.Status.Conditions[0].Status = corev1.ConditionFalse
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
			seen.Unready = append(seen.Unready, p)
		}
		seen.Workloads = []components.Workload{w}
		s.Components = seen
	}
}

// TestDiagnose_Components: what runs on a Node does not depend on how far the Node has come into external mode.
func TestDiagnose_Components(t *testing.T) {
	byService := logged(`Get "https://10.96.0.1:443/api/v1/nodes": dial tcp 10.96.0.1:443: i/o timeout`)
	notReady := func(s *Snapshot) { s.Nodes[1].Status.Conditions[0].Status = corev1.ConditionFalse }
	for _, tt := range []struct {
		name    string
		changes faults
		want    string
	}{
		{"all is well", faults{withProxy()}, ""},
		{"a plain kubeadm cluster", faults{nobody, plainNodes, flags(""), withProxy("w1")}, "Q2(1) W20(1)"},
		{"its Node has stopped reporting", faults{nobody, plainNodes, flags(""), withProxy("w1"), notReady}, "W5(1) W20(1)"},
		{"a Node of it sends no heartbeat", faults{nobody, plainNodes, flags(""), withProxy(), func(s *Snapshot) {
			s.Heartbeats[1].Spec.RenewTime.Time = taken.Add(-2 * time.Minute)
			delete(s.Flags, "w1")
		}}, "W14(1) W20(1)"},
		{"Nodes wait, since the manager does not reach the API server", faults{
			tainted, leaderless, waiting("CrashLoopBackOff", "back-off"), byService, withProxy("cp1", "w1", "w2", "w3"),
		}, "Q2(1)>C2(1)>W26(4)"},
		{"kube-proxy fails where no manager runs", faults{
			tainted, leaderless, waiting("CrashLoopBackOff", "back-off"), byService, withProxy("w1"),
		}, "Q2(1) C2(1)>W26(4)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSnapshot(templates.Deployment, 3, tt.changes...)
			if got := words(Diagnose(s)); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestSummary_Ready(t *testing.T) {
	for want, changes := range map[string]faults{
		"4 Nodes, 4 Ready": {nobody, plainNodes},
		"4 Nodes, 3 Ready": {nobody, plainNodes, away(1)},
	} {
		if got := Diagnose(newSnapshot(templates.Deployment, 3, changes...)).Summary; !strings.HasPrefix(got, want+",") {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
