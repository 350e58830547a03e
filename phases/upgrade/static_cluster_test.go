package upgrade

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/existingtest"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// A static pod that asks its own API server goes with it, as kubeadm does with kube-controller-manager, while another
// control plane is older; and its certificate is renewed where kubeadm has renewed its own.
func TestCluster_Upgrade_StaticPod(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config)
	said := config.CloudConfiguration{
		Provider: "onprem", Mode: config.ModeStaticPod, ClusterName: "ber1",
		ControllerManager: config.ControllerManager{Image: "ghcr.io/ccmadm/cloud-controller-manager:former"},
	}
	u := &upgradable{m: existingtest.LivingAs(t, said), client: client}
	u.runner = u.m.Runner.(*machinetest.Commands)
	for _, p := range []workflow.Phase{manager.Kubeconfig(), manager.ControlPlane()} {
		if out, err := (phasestest.Run{Config: phasestest.InitConfig, Inputs: workflow.Inputs{Request: workflow.Request{Flags: said}}}).Do(t, u.m, p); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	kubeadmsObjects(t, client)
	u.node(t, "cp1", true)
	u.node(t, "cp2", true)
	u.node(t, "w1", false)
	u.kubelet(t, nil)
	u.kubeadm(t, "cp1")
	machinetest.Put(t, u.m, machine.APIServerPod, phasestest.APIServerPod("v1.35.4"))
	identity := machinetest.Content(u.m, machine.CCMKubeconfig)
	during := u.runner.During
	u.runner.During = func(line string) {
		during(line)
		if strings.HasPrefix(line, "kubeadm upgrade apply") {
			machinetest.Put(t, u.m, machine.ControllerManagerConf, phasestest.KubeconfigText(t, phasestest.Cluster.Config))
			later := time.Now().Add(time.Hour)
			if err := os.Chtimes(u.m.Path(machine.ControllerManagerConf), later, later); err != nil {
				t.Error(err)
			}
		}
	}
	const next = "ghcr.io/ccmadm/cloud-controller-manager:next"
	if out, err := u.do(t, Upgrade{Version: "v1.36.3", Image: next}); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(machinetest.Content(u.m, machine.CCMManifest), next) {
		t.Errorf("the static pod is\n%s", machinetest.Content(u.m, machine.CCMManifest))
	}
	if machinetest.Content(u.m, machine.CCMKubeconfig) == identity {
		t.Error("its certificate was not renewed")
	}
	// Behind an address of all control planes it waits for the oldest.
	machinetest.Put(t, u.m, machine.CCMKubeconfig, strings.Replace(machinetest.Content(u.m, machine.CCMKubeconfig), "server: https://",
		"server: https://api.example.org:", 1))
	r, _ := phasestest.Run{Inputs: workflow.Inputs{Existing: true, Operation: &Upgrade{}}}.Must(t, u.m)
	facts, plan, err := upgradeOf(r).planned(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if err := upgradeOf(r).decide(t.Context(), r.Env, facts, plan, false); err != nil || strings.Join(upgradeOf(r).waits, " ") != "cp2" {
		t.Errorf("it waits for %v, %v", upgradeOf(r).waits, err)
	}
}

func TestCluster_Upgrade_Worker(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config)
	kubeadmsObjects(t, client)
	maps := client.CoreV1().ConfigMaps("kube-system")
	cm, err := maps.Get(t.Context(), workflow.KubeadmConfigName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cm.Data[workflow.ClusterConfigKey] = strings.Replace(cm.Data[workflow.ClusterConfigKey], "v1.35.4", "v1.36.3", 1)
	if _, err := maps.Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	m, runner := machinetest.New(t)
	machinetest.Put(t, m, machine.KubeletConf, phasestest.KubeconfigText(t, phasestest.Cluster.Config))
	const flags = "KUBELET_KUBEADM_ARGS=\"--cloud-provider=external --pod-infra-container-image=p\"\n"
	upgrade := func(u Upgrade) (string, error) {
		t.Helper()
		o := workflow.Inputs{Role: kubeadm.RoleJoin, Operation: &u}
		r, out := phasestest.Run{Inputs: o}.Must(t, m)
		err := r.Do(t.Context(), Worker()[:3])
		return out.String(), err
	}
	machinetest.Put(t, m, "/etc/default/kubelet", "KUBELET_EXTRA_ARGS=--feature-gates=MemoryManager=true,Other=true\n")
	_, err = upgrade(Upgrade{})
	phasestest.WantError(t, err, "kubelet v1.36.3 refuses it; remove it there", finding.ExitPreflight)
	machinetest.Put(t, m, "/etc/default/kubelet", "")
	// Kubeadm 1.36 leaves the flag, and the kubelet ends with it: it is taken away where the file is as kubeadm writes it.
	machinetest.Put(t, m, machine.KubeadmFlags, flags+"KUBELET_EXTRA_ARGS=\"--max-pods=200\"\n")
	_, err = upgrade(Upgrade{})
	phasestest.WantError(t, err, "kubelet v1.36.3 refuses it; remove it there", finding.ExitPreflight)
	machinetest.Put(t, m, machine.KubeadmFlags, flags)
	dry := filepath.Join(t.TempDir(), "upgrade.yaml")
	config := "apiVersion: kubeadm.k8s.io/v1beta4\nkind: UpgradeConfiguration\nnode: {dryRun: true}\n"
	if err := os.WriteFile(dry, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := upgrade(Upgrade{Config: dry, ConfigText: config})
	if err != nil || strings.Contains(machinetest.Content(m, machine.StateFile), "upgraded") {
		t.Errorf("a dry run of kubeadm counts as an upgrade: %v\n%s", err, out)
	}
	runner.Ran = nil
	for i := range 2 {
		out, err := upgrade(Upgrade{})
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if ran := strings.Count(strings.Join(runner.Ran, "\n"), "kubeadm upgrade node"); ran != 1 {
			t.Errorf("run %d: kubeadm ran %d times\n%s", i+1, ran, out)
		}
	}
	want := "KUBELET_KUBEADM_ARGS=\"--cloud-provider=external\"\n"
	if got := machinetest.Content(m, machine.KubeadmFlags); got != want {
		t.Errorf("the kubelet's flags are %s, want %s", got, want)
	}
	runner.Answers["kubeadm version"] = "v1.35.4\n"
	_, err = upgrade(Upgrade{})
	phasestest.WantError(t, err, "the installed kubeadm is of v1.35.4, not v1.36.3", finding.ExitPreflight)
}
