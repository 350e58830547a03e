package diagnosis

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/templates"
)

// kept has the Lease of a holder that has renewed it last so long ago, and said for how long it lasts.
func kept(who string, renewed, lasts time.Duration) func(*Snapshot) {
	return func(s *Snapshot) {
		s.Leases[0] = lease(v1alpha1.Namespace, v1alpha1.LeaseName, who, renewed)
		s.Leases[0].Spec.LeaseDurationSeconds = new(int32(lasts.Seconds()))
	}
}

func renewedNow(s *Snapshot) { s.Renewed = new(taken.Add(-time.Second)) }

// TestDiagnose_Holders is about a Lease whose holder does not speak.
func TestDiagnose_Holders(t *testing.T) {
	asks := logged("attempting to acquire leader lease kube-system/cloud-controller-manager...")
	quiet := heard(0, -time.Minute) // cp1's kubelet
	cordoned := func(s *Snapshot) {
		taint := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
		s.Nodes[0].Spec.Taints = append(s.Nodes[0].Spec.Taints, taint)
	}
	unplaced, onControlPlane := unplaced(tolerates(v1alpha1.ControlPlaneLabel)), selecting(v1alpha1.ControlPlaneLabel)
	old := kept("old-cp_1f0a", 3*time.Hour, time.Hour)
	second := func(s *Snapshot) { s.Pods = append(s.Pods, pod("ccm-2", "w1")) }
	const (
		describe = "kubectl -n kube-system describe pod ccm-x7k2p"
		find     = "kubectl get pods -A -o wide | grep old-cp"
		remove   = "kubectl -n kube-system delete lease cloud-controller-manager"
	)
	for _, tt := range []struct {
		name       string
		changes    faults
		want, next string
	}{
		{"gone, and the Lease lasts for an hour", faults{old, asks}, "H5(1)>W7(1)", remove},
		{
			"gone, and the Lease was lost to it",
			faults{old, logged("leaderelection lost", "attempting to acquire leader lease")},
			"H5(1)>H4(1)>W7(1)", remove,
		},
		{"perhaps there, by a clock that is behind", faults{kept("old-cp_1f0a", 62*time.Minute, time.Hour), asks}, "W7(1)", ""},
		{"its Lease was renewed while it was looked at", faults{old, asks, renewedNow, heldBy("cp1_1f0a")}, "", ""},
		{"gone, of the same machine", faults{old, asks, heldBy("cp1_1f0a")}, "H5(1)>W7(1)", remove},
		{"perhaps gone, in its time", faults{kept("old-cp_1f0a", 10*time.Minute, time.Hour), asks}, "H1(1)", find},
		{"the manager does not say that it waits", faults{old}, "W7(1)", ""},
		{"a Lease that runs out", faults{kept("old-cp_1f0a", 3*time.Hour, 15*time.Second), asks}, "W7(1)", ""},
		{"its kubelet is silent", faults{kept("cp1_8c1b", time.Minute, 15*time.Second), quiet}, "W14(1)>W7(1)", ""},
		{
			"its kubelet is silent, and another pod runs",
			faults{kept("cp1_8c1b", time.Minute, 15*time.Second), quiet, second},
			"W14(1) W7(1)", "",
		},
		{"silent, and it leads", faults{quiet}, "W14(1)", ""},
		{"the Node is cordoned", faults{leaderless, unplaced, onControlPlane, cordoned}, "W22(1)", "kubectl uncordon cp1"},
		{"a Node is cordoned, and the others are not", faults{leaderless, unplaced, cordoned}, "W22(1)", describe},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := Diagnose(newSnapshot(templates.Deployment, 3, tt.changes...))
			if got := words(d); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if tt.next != "" && (len(d.Causes) == 0 || d.Causes[0].Next != tt.next) {
				t.Errorf("got %+v, want next %s", d.Causes, tt.next)
			}
		})
	}
}
