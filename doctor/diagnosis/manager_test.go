package diagnosis

import (
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/templates"
)

// TestDiagnose_ManagerDisagrees: what a manager states, and the cluster, or another pod of it, has otherwise.
func TestDiagnose_ManagerDisagrees(t *testing.T) {
	pods := func(s *Snapshot) {
		for i := range s.Nodes {
			s.Nodes[i].Spec.PodCIDRs = []string{"10.244." + string(rune('0'+i)) + ".0/24"}
		}
	}
	second := func(image string, age time.Duration) func(*Snapshot) {
		return func(s *Snapshot) {
			p := s.Pods[0].DeepCopy()
			p.Name, p.CreationTimestamp = "ccm-second", ago(age)
			p.Spec.Containers[0].Image = image
			s.Pods = append(s.Pods, *p)
		}
	}
	const image = "registry.k8s.io/provider-aws/cloud-controller-manager:"
	for _, tt := range []struct {
		name    string
		changes faults
		want    string
	}{
		{"the same network", faults{pods, args("--cluster-cidr=10.244.0.0/16", "--configure-cloud-routes=true")}, ""},
		{"another network", faults{pods, args("--cluster-cidr=10.99.0.0/16", "--configure-cloud-routes=true")}, "Q15(1)"},
		{"another network, and no routes", faults{pods, args("--cluster-cidr=10.99.0.0/16", "--configure-cloud-routes=false")}, ""},
		{"another network, and routes by default, which not each cloud has", faults{pods, args("--cluster-cidr=10.99.0.0/16")}, ""},
		{"another network, and no controller of routes", faults{pods, args("--cluster-cidr=10.99.0.0/16", "--configure-cloud-routes=true",
			"--controllers=cloud-node,cloud-node-lifecycle,service")}, ""},
		{"another network, and the controller is left out", faults{pods, args("--cluster-cidr=10.99.0.0/16", "--configure-cloud-routes=true",
			"--controllers=*,-node-route-controller")}, ""},
		{"another network, and the controller is named", faults{pods, args("--cluster-cidr=10.99.0.0/16", "--configure-cloud-routes=true",
			"--controllers=cloud-node,route")}, "Q15(1)"},
		{"another family", faults{pods, args("--cluster-cidr=fd00::/48", "--configure-cloud-routes=true")}, ""},
		{"one version", faults{second(image+"v1.36.0", time.Hour)}, ""},
		{"two versions", faults{second(image+"v1.28.0", time.Hour)}, "Q15(1)"},
		{"a rollout goes on", faults{second(image+"v1.37.0", time.Minute)}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := words(Diagnose(newSnapshot(templates.Deployment, 3, tt.changes...))); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
