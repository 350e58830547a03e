package adoption

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The label alone does not make an object ours: GitOps has it from `ccmadm render`.
func TestSplitApplied(t *testing.T) {
	var found []leftover
	for _, subject := range []string{
		"Deployment/gitops/cloud-controller-manager", "ClusterRole/listed", "ClusterRole/theirs",
		"Pod/kube-system/ccmadm-node-1", "Pod/default/ccmadm-node-1", "IPAddress/192.0.2.1",
		"Namespace/ccmadm-rehearsal-abcde", "ConfigMap/ccmadm-rehearsal-abcde/task", "Lease/kube-system/ccmadm-run",
		"ConfigMap/kube-system/ccmadm-applied", "ConfigMap/kube-system/ccmadm-inventory",
	} {
		found = append(found, leftover{subject: subject})
	}
	ours, others := splitApplied(found, []string{"ClusterRole/listed"})
	var got []string
	for _, o := range ours {
		got = append(got, o.subject)
	}
	want := []string{
		"ClusterRole/listed", "Pod/kube-system/ccmadm-node-1", "IPAddress/192.0.2.1",
		"Namespace/ccmadm-rehearsal-abcde", "ConfigMap/ccmadm-rehearsal-abcde/task", "Lease/kube-system/ccmadm-run",
		"ConfigMap/kube-system/ccmadm-applied", "ConfigMap/kube-system/ccmadm-inventory",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
	theirs := []string{"Deployment/gitops/cloud-controller-manager", "ClusterRole/theirs", "Pod/default/ccmadm-node-1"}
	if diff := cmp.Diff(theirs, others); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}
