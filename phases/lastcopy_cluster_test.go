package phases

import (
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/existingtest"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// Where the Secret is gone, the files that the static pod of this machine reads are the last copy of the credentials. A machine
// that has none gets no static pod without them.
func TestCluster_JoinControlPlane_SecretIsGone(t *testing.T) {
	const conf = "[Global]\nauth-url = https://keystone.example\n"
	file := filepath.Join(t.TempDir(), "cloud.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	m := existingtest.LivingAs(t, config.CloudConfiguration{
		Provider: "openstack", Mode: config.ModeStaticPod, ClusterName: "ber1", CloudConfig: config.CloudConfigFile{File: file},
	})
	join := func(m *machine.Machine) error {
		t.Helper()
		run := phasestest.Run{Config: phasestest.JoinConfig + "controlPlane: {}\n", Inputs: workflow.Inputs{Role: kubeadm.RoleJoin}}
		_, err := run.Do(t, m, manager.JoinControlPlane())
		return err
	}
	if err := join(m); err != nil {
		t.Fatal(err)
	}
	secrets := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config).CoreV1().Secrets(v1alpha1.Namespace)
	if err := secrets.Delete(t.Context(), v1alpha1.CloudConfigName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := join(m); err != nil {
		t.Error(err)
	}
	if got := machinetest.Content(m, machine.CloudConfigDir+"/cloud.conf"); got != conf {
		t.Errorf("the configuration on the machine is %q", got)
	}
	other, _ := phasestest.ControlPlaneMachine(t, phasestest.Cluster.Config)
	phasestest.WantError(t, join(other), "Secret/kube-system/ccmadm-cloud-config is gone, and this machine has no copy", finding.ExitError)
	if got := machinetest.Content(other, machine.CCMManifest); got != "" {
		t.Errorf("a static pod without credentials was written:\n%s", got)
	}
}
