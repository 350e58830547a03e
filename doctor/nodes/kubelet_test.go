package nodes

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// A machine that is switched off on purpose is no failure of the cluster's for as long as it is off.
func TestJudge_SwitchedOff(t *testing.T) {
	now := time.Now()
	off := newNode("w1", goneSilent, func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: v1alpha1.ShutdownTaint, Effect: corev1.TaintEffectNoSchedule}}
	})
	kept := newLease("w1", now.Add(-time.Hour))
	kept.Name = "w1"
	renewed := newLease("w2", now)
	renewed.Name = "w2"
	f := &Facts{
		Now: now, Nodes: []corev1.Node{*off, *newNode("w2"), *newNode("w3", goneSilent)}, LeaseName: v1alpha1.LeaseName,
		Lease: newLease("cp1_1", now), Heartbeats: []coordinationv1.Lease{*kept, *renewed},
	}
	r := Judge(f, nil)
	if c := r.Nodes[0].Cause; c == nil || c.ID != finding.MachineOff || c.Severity != finding.SeverityWarning {
		t.Errorf("got cause %+v", c)
	}
	if failing := r.Failing(Addressed); len(failing) != 1 || failing[0].Node != "w3" || len(r.Findings) > 0 {
		t.Errorf("failing are %+v, findings %+v; want w3, whose kubelet is silent", failing, r.Findings)
	}
	if list := f.Silent(r.Nodes); len(list) > 0 {
		t.Errorf("got %+v of a machine that is off", list)
	}
}

// A kubelet registers its Node when it starts: one whose Node was deleted meanwhile is restarted.
func TestCauseOf_Absent(t *testing.T) {
	cause := causeOf(Status{Node: "w1", State: Absent}, nil, &evidence{})
	if want := "on w1: systemctl restart kubelet"; !strings.HasPrefix(cause.Next, want) {
		t.Errorf("next %q, want %q first", cause.Next, want)
	}
}
