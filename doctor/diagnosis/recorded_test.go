package diagnosis

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/templates"
)

// TestDiagnose_Recorded is about what docs/contributing/faults.md has no machine for.
func TestDiagnose_Recorded(t *testing.T) {
	withoutNetwork := func(s *Snapshot) {
		for i := range s.Nodes {
			taints := &s.Nodes[i].Spec.Taints
			*taints = append(*taints, corev1.Taint{Key: corev1.TaintNodeNetworkUnavailable, Effect: corev1.TaintEffectNoSchedule})
		}
	}
	onHost := func(h Host) func(*Snapshot) { return func(s *Snapshot) { s.Host = &h } }
	server := HostManifest{
		File: "/etc/kubernetes/manifests/kube-apiserver.yaml", Pod: "kube-system/kube-apiserver", Ports: []int{6443},
	}
	for _, tt := range []struct {
		name    string
		changes faults
		want    string
	}{
		{
			"a cloud whose certificate is of a private CA",
			faults{
				tainted, leaderless, waiting("CrashLoopBackOff", "back-off"),
				logged(`Post "https://keystone.example.org:5000/v3": tls: failed to verify certificate: ` +
					`x509: certificate signed by unknown authority`),
			},
			"C5(1)>W26(4)",
		},
		{
			"no toleration for a network that is not there yet",
			faults{
				tainted, leaderless, withoutNetwork,
				unplaced(tolerates(v1alpha1.ControlPlaneLabel), tolerates(v1alpha1.UninitializedTaint)),
			},
			"F2(1)>W22(4)",
		},
		{"accounts of controllers that may not be used", faults{denied("create", "", "serviceaccounts")}, "D7(1)"},
		{
			"another program on the API server's port",
			faults{onHost(Host{
				Name: "cp1", Node: "cp1", Manifests: []HostManifest{server}, Ports: []HostPort{{Port: 6443, Program: "nginx", PID: 800}},
			})},
			"K12(1)",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := words(Diagnose(newSnapshot(templates.Deployment, 3, tt.changes...))); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
