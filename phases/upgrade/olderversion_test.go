package upgrade

import (
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/bootstrap"
	"github.com/ccmadm/ccmadm/phases/existingtest"
	"github.com/ccmadm/ccmadm/phases/phasestest"
)

// Init on a machine that has its cluster says that it does not bring an older version.
func TestCluster_InitAgain_OlderVersion(t *testing.T) {
	m := existingtest.LivingAs(t, config.CloudConfiguration{Provider: "onprem", Mode: config.ModeDaemonSet, ClusterName: "ber1"})
	for _, tt := range []struct {
		name, said, runs string
		want             bool
	}{
		{"older", "v1.35.1", "v1.36.3", true},
		{"the same", "v1.36.3", "v1.36.3", false},
		{"a label", "stable-1.36", "v1.36.3", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			machinetest.Put(t, m, machine.APIServerPod, phasestest.APIServerPod(tt.runs))
			config := phasestest.InitConfig + "---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: " +
				tt.said + "\n"
			r, out := phasestest.Run{Config: config}.Must(t, m)
			if err := bootstrap.CheckClusterRecord(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			want := "kubernetesVersion " + tt.said + " is not brought: the API server here is " + tt.runs
			if got := strings.Contains(out.String(), want); got != tt.want {
				t.Errorf("it says %v\n%s", got, out)
			}
		})
	}
}
