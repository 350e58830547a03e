package diagnosis

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/templates"
)

func unready(s *Snapshot) { s.Pods[0].Status.Conditions[0].Status = corev1.ConditionFalse }

// TestDiagnose_Unelected: Hetzner's chart and DigitalOcean's manifest run one replica with --leader-elect=false.
func TestDiagnose_Unelected(t *testing.T) {
	alone := args("--leader-elect=false")
	const fails = "E1122 error syncing 'w1': failed to get instance metadata for node w1: no such server, requeuing"
	lease := denied("get", "coordination.k8s.io", "leases")
	for _, tt := range []struct {
		name    string
		changes faults
		want    string
	}{
		{"all is well", faults{alone, leaderless}, ""},
		{"the Lease of a former manager is left", faults{alone, heldBy("old_1"), stale}, ""},
		{"somebody else renews the Lease, for which nobody waits", faults{alone, heldBy("rke2_1"), tainted}, "W9(4)"},
		{"Leases cannot be looked at", faults{alone, without(partLeases)}, ""},
		{"permissions for Leases are not asked for", faults{alone, leaderless, lease}, ""},
		{"nor are they what a Node waits for", faults{alone, leaderless, tainted, lease}, "W9(4)"},
		{"a Node waits, and the log says why", faults{alone, leaderless, tainted, logged(fails)}, "W9(3) W10(1)"},
		{"the pod is not ready", faults{alone, leaderless, unready}, "W7(1)"},
		{"the pod has just begun, after it failed", faults{alone, leaderless, failedLately}, "W26(1)"},
		{"the pod dies again and again", faults{alone, leaderless, waiting("CrashLoopBackOff", "back-off")}, "W26(1)"},
		{"it elects a leader", faults{args("--leader-elect=true"), leaderless}, "W7(1)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := Diagnose(newSnapshot(templates.Deployment, 3, tt.changes...))
			if got := words(d); got != tt.want {
				t.Errorf("got %s, want %s: %+v", got, tt.want, d.Causes)
			}
		})
	}
	d := Diagnose(newSnapshot(templates.Deployment, 3, alone, leaderless))
	if !strings.HasSuffix(d.Summary, "led by pod ccm-x7k2p, with --leader-elect=false") {
		t.Errorf("got summary %q", d.Summary)
	}
}

// TestDiagnose_LeaseElsewhere: --leader-elect-resource-namespace says where the Lease is.
func TestDiagnose_LeaseElsewhere(t *testing.T) {
	told := args("--leader-elect-resource-namespace=ccm")
	elsewhere := func(namespace string, renewed time.Duration) func(*Snapshot) {
		return func(s *Snapshot) {
			s.Leases = []coordinationv1.Lease{lease(namespace, "cloud-controller-manager", "cp1_1", renewed)}
		}
	}
	unseen := func(s *Snapshot) {
		s.Leases = nil
		s.NotSeen = []NotSeen{{What: "leases in ccm", Reason: metav1.StatusReasonForbidden, Message: "forbidden"}}
	}
	for _, tt := range []struct {
		name    string
		changes faults
		want    string
		words   string
	}{
		{"there, and renewed", faults{told, elsewhere("ccm", time.Second)}, "", ""},
		{"there, and not renewed", faults{told, elsewhere("ccm", time.Hour)}, "W7(1)", "Lease/ccm/cloud-controller-manager"},
		{"in kube-system is another's", faults{told}, "W7(1)", "Lease/ccm/cloud-controller-manager has no holder"},
		{"not seen is no word that nobody leads", faults{told, unseen}, "W15(1)", "forbidden"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := Diagnose(newSnapshot(templates.Deployment, 3, tt.changes...))
			if got := words(d); got != tt.want || tt.words != "" && !strings.Contains(d.Causes[0].Message, tt.words) {
				t.Errorf("got %s, want %s: %+v", got, tt.want, d.Causes)
			}
		})
	}
}
