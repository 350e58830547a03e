package diagnosis

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/templates"
)

// TestDiagnose_Young: a Node that has just joined is on its way, which the doctor tells of this Node alone.
func TestDiagnose_Young(t *testing.T) {
	joins := func(i int, age time.Duration, changes ...func(*corev1.Node)) func(*Snapshot) {
		return func(s *Snapshot) {
			s.Nodes[i].CreationTimestamp = ago(age)
			for _, change := range changes {
				change(&s.Nodes[i])
			}
		}
	}
	waits := func(n *corev1.Node) {
		n.Spec.ProviderID, n.Spec.Taints = "", []corev1.Taint{{Key: v1alpha1.UninitializedTaint, Effect: corev1.TaintEffectNoSchedule}}
	}
	starts := func(n *corev1.Node) {
		n.Status.Conditions[0].Status, n.Status.Conditions[0].Message = corev1.ConditionFalse, "cni plugin not initialized"
	}
	for _, tt := range []struct {
		name    string
		changes faults
		wrong   int
		cause   string
	}{
		{"its taint is not taken yet", faults{joins(1, 8*time.Second, waits)}, 0, "W9"},
		{"its CNI plugin starts", faults{joins(1, 15*time.Second, starts)}, 0, "W5"},
		{"for more than a minute", faults{joins(1, 61*time.Second, starts)}, 1, "W5"},
		{"beside one that is not Ready for long", faults{joins(1, 15*time.Second, starts), joins(2, time.Hour, starts)}, 1, "W5"},
		{"the manager fails with it", faults{joins(1, 8*time.Second, waits), logged("E1121 error syncing 'w1': no such machine")}, 1, "W10"},
		{"beside what the log tells of yesterday", faults{joins(1, 8*time.Second, waits), logged(
			`E1121 03:00:00.000001 1 x.go:1] failed to get instance metadata: Get "http://169.254.169.254/x": context deadline exceeded`,
			`I1121 03:10:00.000001 1 x.go:1] Successfully initialized node w2 with cloud provider`,
		)}, 0, "W9"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := Diagnose(newSnapshot(templates.Deployment, 3, tt.changes...))
			errors, warnings := d.Count()
			if errors != tt.wrong || warnings > 0 {
				t.Errorf("got %d errors, %d warnings: %s", errors, warnings, words(d))
			}
			if s := newSnapshot(templates.Deployment, 3, tt.changes...); s.Behind() {
				t.Error("it is behind")
			}
			if why := d.Why("w1"); why.Cause == nil || string(why.Cause.ID) != tt.cause {
				t.Errorf("why: got %+v", why)
			}
		})
	}
}
