package balancer

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

// The agent of n2 is dead, and its NodeAgent stays. After five minutes the leader takes its vote, and its next report gives
// it back. Nobody announces the Service's address meanwhile: its condition names the silent one.
func TestCluster_SilentAgent(t *testing.T) {
	c := newCluster(t, addressPool("lan", "198.18.0.10-198.18.0.20"))
	agents := c.objects.NodeAgents
	c.node("n2", "198.18.0.2")
	report := func(node string) {
		t.Helper()
		patch := []byte(`{"status": {"announced": 0, "routed": 0, "renewTime": "` + metav1.NowMicro().UTC().Format(metav1.RFC3339Micro) + `"}}`)
		written, err := agents.Patch(t.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		if err != nil {
			t.Fatal(err)
		}
		for began := time.Now(); ; time.Sleep(10 * time.Millisecond) { // until the leader has it
			if slices.ContainsFunc(c.leader.caches.nodeAgents(), func(a *v1alpha1.NodeAgent) bool {
				return a.Name == node && a.Status.RenewTime.Equal(&written.Status.RenewTime)
			}) {
				return
			} else if time.Since(began) > time.Minute {
				t.Fatalf("the leader has not seen the report of %s", node)
			}
		}
	}
	marked := func(node string) bool {
		agent, err := agents.Get(t.Context(), node, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return agent.Silent()
	}
	if _, err := agents.Create(t.Context(), &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	report("n2")
	c.silent.Store(true)
	c.create("web")
	for minute := range 8 {
		report("n1")
		c.leader.changed()
		time.Sleep(100 * time.Millisecond)
		if got := marked("n2"); got && minute < 5 {
			t.Fatalf("after %d minutes it has no vote", minute)
		} else if got {
			break
		}
		c.ahead.Add(int64(50 * time.Second))
	}
	for range 20 { // a leader that came late to its first look counts from there
		if marked("n2") {
			break
		}
		report("n1")
		c.leader.changed()
		time.Sleep(500 * time.Millisecond)
		c.ahead.Add(int64(50 * time.Second))
	}
	if !marked("n2") || marked("n1") {
		t.Fatalf("n2, which is silent: %v; n1, which is not: %v", marked("n2"), marked("n1"))
	}
	web := c.within(5*time.Second, "web", func(s *corev1.Service) bool {
		return allocator.Condition(s) != nil && allocator.Condition(s).Reason == "AgentSilent"
	})
	if got := allocator.Condition(web); !strings.Contains(got.Message, "1 of 2 voters do not report: n2") {
		t.Errorf("the condition is %+v", got)
	}
	if report("n2"); marked("n2") {
		t.Error("it reports again, and has no vote")
	}
}
