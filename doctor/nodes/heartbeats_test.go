package nodes

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"
)

// TestJudgeHeartbeats_PowerCut: a machine whose power was cut is found as soon as its kubelet has missed a heartbeat, and not before:
// before that, one that was seen to renew its Lease since is one that the API server does not reach.
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
		{"it has missed none", map[string]time.Duration{"w1": 9 * time.Second, "w2": 3 * time.Second}, off, "renews its Lease, and the API server does not reach it", 0},
		{"late, and it answers", map[string]time.Duration{"w1": 14 * time.Second, "w2": 3 * time.Second}, nil, "", 0},
		{"our clock is ahead", map[string]time.Duration{"w1": time.Minute, "w2": time.Minute}, off, "does not reach it: dial tcp", 0},
		{"our clock is behind", map[string]time.Duration{"w1": -time.Hour, "w2": -time.Hour}, off, "does not reach it: dial tcp", 0},
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

// TestAnswers_Confirm: a kubelet that does not answer lives where it renews its Lease after it was asked.
func TestAnswers_Confirm(t *testing.T) {
	lease := func(node string, age time.Duration) coordinationv1.Lease {
		l := coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: node}}
		l.Spec.RenewTime = &metav1.MicroTime{Time: time.Now().Add(-age)}
		return l
	}
	listed := []coordinationv1.Lease{lease("alive", 2*time.Second), lease("stops", 2*time.Second), lease("off", 20*time.Second)}
	client := fake.NewClientset()
	client.PrependReactor("get", "leases", func(action kubetesting.Action) (bool, runtime.Object, error) {
		name := action.(kubetesting.GetAction).GetName()
		l := lease(name, 0)
		if name == "stops" {
			l = listed[1]
		}
		return true, &l, nil
	})
	a := Answers{Unreached: map[string]string{"alive": "x", "stops": "x", "off": "x"}}
	ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond) // less than a heartbeat
	defer cancel()
	a.confirm(ctx, client, listed)
	if got := slices.Sorted(maps.Keys(a.Unreached)); !slices.Equal(got, []string{"alive", "off"}) {
		t.Errorf("got %q", got)
	}
}

// TestJudgeHeartbeats_Answers: one that has just answered is not silent, whatever time its Lease has.
func TestJudgeHeartbeats_Answers(t *testing.T) {
	now := time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC)
	var leases []coordinationv1.Lease
	for name, age := range map[string]time.Duration{"w1": 95 * time.Second, "w2": time.Second, "w3": 2 * time.Second} {
		renewed := metav1.NewMicroTime(now.Add(-age))
		leases = append(leases, coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}})
	}
	for name, tt := range map[string]struct {
		facts Facts
		want  bool
	}{
		"it was not asked":           {Facts{}, true},
		"another one has answered":   {Facts{Answers: Answers{Flags: map[string]string{"w2": ""}}}, true},
		"it has told its flags":      {Facts{Answers: Answers{Flags: map[string]string{"w1": ""}}}, false},
		"it has told something else": {Facts{Alive: map[string]bool{"w1": true}}, false},
	} {
		statuses := []Status{{Node: "w1", State: Ready}}
		tt.facts.Heartbeats, tt.facts.Now = leases, now
		if judgeHeartbeats(statuses, &tt.facts); (statuses[0].Cause != nil) != tt.want {
			t.Errorf("%s: got %+v", name, statuses[0].Cause)
		}
	}
}

// TestAnswers_Doubt: an API server that does not reach Nodes, or that is slow, says nothing of them.
func TestAnswers_Doubt(t *testing.T) {
	const gone = "dial tcp 192.0.2.9:10250: connect: no route to host"
	for _, tt := range []struct {
		name      string
		asked     int
		unreached map[string]string
		quick     bool
		want      int
	}{
		{"one of one", 1, map[string]string{"a": gone}, false, 1},
		{"one of two", 2, map[string]string{"a": noAnswer()}, false, 1},
		{"all of two", 2, map[string]string{"a": gone, "b": gone}, false, 0},
		{"a rack", 3, map[string]string{"a": gone, "b": gone}, false, 2},
		{"most hang", 4, map[string]string{"a": noAnswer(), "b": noAnswer(), "c": noAnswer()}, false, 0},
		{"most hang, and one has answered quickly", 4, map[string]string{"a": noAnswer(), "b": noAnswer(), "c": noAnswer()}, true, 3},
		{"most hang, and one is gone", 5, map[string]string{"a": noAnswer(), "b": noAnswer(), "c": noAnswer(), "d": gone}, false, 1},
	} {
		a := Answers{Unreached: tt.unreached}
		if a.doubt(tt.asked, tt.quick); len(a.Unreached) != tt.want {
			t.Errorf("%s: %v", tt.name, a.Unreached)
		}
	}
}
