package nodes

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestJudgeHeartbeats_PowerCut: a machine whose power was cut is found as soon as its kubelet has missed a heartbeat, and not before:
// a kubelet that starts again does not answer for a moment either. Without a clock that goes with theirs, nothing is said.
func TestJudgeHeartbeats_PowerCut(t *testing.T) {
	now := time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC)
	off := map[string]string{"w1": "dial tcp 192.0.2.9:10250: connect: no route to host"}
	for _, tt := range []struct {
		name      string
		ages      map[string]time.Duration
		unreached map[string]string
		want      string
		duration  int32 // of Leases; 0: they do not say
	}{
		{"power cut", map[string]time.Duration{"w1": 17 * time.Second, "w2": 3 * time.Second}, off, "has sent no heartbeat for 17s, and does not " +
			"answer the API server: dial tcp 192.0.2.9:10250: connect: no route to host", 0},
		{"it starts again", map[string]time.Duration{"w1": 9 * time.Second, "w2": 3 * time.Second}, off, "", 0},
		{"late, and it answers", map[string]time.Duration{"w1": 14 * time.Second, "w2": 3 * time.Second}, nil, "", 0},
		{"our clock is ahead", map[string]time.Duration{"w1": time.Minute, "w2": time.Minute}, off, "", 0},
		{"our clock is behind", map[string]time.Duration{"w1": -time.Hour, "w2": -time.Hour}, off, "", 0},
		{"our clock is behind, power cut", map[string]time.Duration{"w1": -40 * time.Second, "w2": -time.Minute}, off, "has sent no heartbeat for 20s", 0},
		{"before its first Lease", map[string]time.Duration{"w2": time.Second}, off, "has sent no heartbeat for 20s", 0},
		{"off for longer", map[string]time.Duration{"w1": time.Minute, "w2": time.Second, "w3": time.Second}, off, "has not renewed its Lease for 59s", 0},
		{"it renews a Lease of 300 s each 75 s", map[string]time.Duration{"w1": 76 * time.Second, "w2": time.Second, "w3": time.Second}, nil, "", 300},
		{"off, with a Lease of 300 s", map[string]time.Duration{"w1": 90 * time.Second, "w2": time.Second, "w3": time.Second}, nil, "its Lease for 1m29s", 300},
		{"one of two, with a Lease of an hour", map[string]time.Duration{"w1": 14 * time.Minute, "w2": time.Second}, nil, "", 3600},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var leases []coordinationv1.Lease
			for name, age := range tt.ages {
				renewed := metav1.NewMicroTime(now.Add(-age))
				leases = append(leases, coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}})
				if tt.duration > 0 {
					leases[len(leases)-1].Spec.LeaseDurationSeconds = &tt.duration
				}
			}
			statuses := []Status{{Node: "w1", State: Ready}}
			node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1", CreationTimestamp: metav1.NewTime(now.Add(-25 * time.Second))}}
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, LastHeartbeatTime: metav1.NewTime(now.Add(-20 * time.Second))}}
			judgeHeartbeats(statuses, &Facts{Nodes: []corev1.Node{node}, Heartbeats: leases, Answers: Answers{Unreached: tt.unreached}, Now: now})
			got := ""
			if statuses[0].Cause != nil {
				got = statuses[0].Cause.Message
			}
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("said %q, want %q", got, tt.want)
			}
		})
	}
}

// A Node that is not called Ready any more was heard when its Lease was renewed last: its condition is minutes older.
func TestJudgeHeartbeats_SinceWhen(t *testing.T) {
	now := time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC)
	renewed := metav1.NewMicroTime(now.Add(-50 * time.Second))
	cause := silent(Status{Node: "w1"}, stoppedAt(now.Add(-5*time.Minute)))
	statuses := []Status{{Node: "w1", State: Registered, Cause: &cause}}
	leases := []coordinationv1.Lease{{ObjectMeta: metav1.ObjectMeta{Name: "w1"}, Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}}}
	judgeHeartbeats(statuses, &Facts{Heartbeats: leases, Now: now})
	if got, want := statuses[0].Cause.Message, "last at 2026-11-27T09:59:10Z"; !strings.Contains(got, want) {
		t.Errorf("said %q, want %q", got, want)
	}
}

// TestAnswers_Doubt: an API server that does not reach Nodes, or that is slow, says nothing of them.
func TestAnswers_Doubt(t *testing.T) {
	const gone = "dial tcp 192.0.2.9:10250: connect: no route to host"
	for _, tt := range []struct {
		name      string
		asked     int
		unreached map[string]string
		want      int
	}{
		{"one of one", 1, map[string]string{"a": gone}, 1},
		{"one of two", 2, map[string]string{"a": noAnswer()}, 1},
		{"all of two", 2, map[string]string{"a": gone, "b": gone}, 0},
		{"a rack", 3, map[string]string{"a": gone, "b": gone}, 2},
		{"most hang", 4, map[string]string{"a": noAnswer(), "b": noAnswer(), "c": noAnswer()}, 0},
		{"most hang, and one is gone", 5, map[string]string{"a": noAnswer(), "b": noAnswer(), "c": noAnswer(), "d": gone}, 1},
	} {
		a := Answers{Unreached: tt.unreached}
		if a.doubt(tt.asked); len(a.Unreached) != tt.want {
			t.Errorf("%s: %v", tt.name, a.Unreached)
		}
	}
}
