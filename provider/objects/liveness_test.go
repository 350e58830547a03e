package objects

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// A lease that is read for the first time may be of long ago, and one without a report is no sign of life: neither makes an agent live.
func TestLiveness_ObserveLease(t *testing.T) {
	start := time.Now()
	at := func(d time.Duration) metav1.MicroTime { return metav1.NewMicroTime(start.Add(d)) }
	agent := &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: v1alpha1.NodeAgentStatus{RenewTime: at(0)}}
	lease := func(d time.Duration) *v1alpha1.NodeAgentLease {
		return &v1alpha1.NodeAgentLease{ObjectMeta: agent.ObjectMeta, RenewTime: at(d)}
	}
	l := Liveness{}
	if l.ObserveLease(start, lease(0)) || l.Live(start, "a") || len(l) > 0 {
		t.Error("an agent without a report is alive")
	}
	if !l.Observe(start, agent) || !l.Live(start, "a") {
		t.Error("an agent with a report is not alive")
	}
	now := start.Add(10 * time.Minute)
	if l.ObserveLease(now, lease(-48*time.Hour)) || l.Live(now, "a") {
		t.Error("a lease of long ago makes it live")
	}
	if l.ObserveLease(now, lease(-48*time.Hour)) || l.Live(now, "a") {
		t.Error("the same lease, listed again, makes it live")
	}
	if !l.ObserveLease(now, lease(-time.Hour)) || !l.Live(now.Add(LiveTime-1), "a") || l.Live(now.Add(LiveTime), "a") {
		t.Error("a renewal counts for longer or shorter than a minute")
	}
	if l.Observe(now, agent) {
		t.Error("the same report, listed again, is new")
	}
}

// An agent that is marked as silent does not live when it is seen first, as by a leader that begins, until it renews its report or its
// lease. What it has said is remembered as of now all the same.
func TestLiveness_Silent(t *testing.T) {
	start := time.Now()
	at := func(d time.Duration) metav1.MicroTime { return metav1.NewMicroTime(start.Add(d)) }
	agent := &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: v1alpha1.NodeAgentStatus{RenewTime: at(-time.Hour)}}
	agent.Annotations = map[string]string{v1alpha1.AgentSilentAnnotation: agent.Status.Renewed()}
	agents := []*v1alpha1.NodeAgent{agent}
	leases := []*v1alpha1.NodeAgentLease{{ObjectMeta: metav1.ObjectMeta{Name: "a"}, RenewTime: at(-time.Hour)}}
	fresh := func() Liveness {
		l := Liveness{}
		for range 2 { // as often as it is listed
			if l.ObserveAll(start, agents, leases); l.Live(start, "a") {
				t.Fatal("it lives")
			}
		}
		if !l.Within(2*LiveTime, start.Add(LiveTime), "a") {
			t.Error("what it has said is forgotten")
		}
		return l
	}
	l, now := fresh(), start.Add(10*time.Minute)
	renewed := agent.DeepCopy()
	renewed.Status.RenewTime = at(0)
	if l.ObserveAll(now, []*v1alpha1.NodeAgent{renewed}, leases); !l.Live(now, "a") {
		t.Error("it reports, and does not live")
	}
	l = fresh()
	leases[0] = &v1alpha1.NodeAgentLease{ObjectMeta: leases[0].ObjectMeta, RenewTime: at(0)}
	for range 2 { // it does not know of the mark yet
		if l.ObserveAll(now, agents, leases); !l.Live(now, "a") {
			t.Error("it renews its lease, and does not live")
		}
	}
}
