package phases

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/existingtest"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func scheduledOnprem() config.CloudConfiguration {
	return config.CloudConfiguration{Provider: "onprem", Mode: config.ModeDaemonSet, ClusterName: "ber1"}
}

// This machine's copy of the settings is that of its last run. Another control plane has changed the manager since: a
// phase of init that is run here by itself does not bring back the former one, nor what the next run would remove.
func TestCluster_Phase_GoesByTheClustersRecord(t *testing.T) {
	m := existingtest.LivingAs(t, scheduledOnprem())
	old := machinetest.Content(m, machine.RecordFile)
	change := phasestest.CloudDocument + "nodeIP: 10.0.0.0/24\ncontrollerManager: {extraArgs: [--v=4]}\n"
	if out, _, err := existingtest.ApplyRun(t, m, change, workflow.Inputs{}); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	machinetest.Put(t, m, machine.RecordFile, old)
	client := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config)
	managers := client.AppsV1().DaemonSets("kube-system")
	for _, p := range []workflow.Phase{manager.Addon(), manager.Record()} {
		if out, err := (phasestest.Run{}).Do(t, m, p); err != nil {
			t.Fatalf("%s: %v\n%s", p.Name, err, out)
		}
	}
	set, err := managers.Get(t.Context(), "onprem-cloud-controller-manager", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if args := strings.Join(set.Spec.Template.Spec.Containers[0].Args, " "); !strings.Contains(args, "--v=4") {
		t.Errorf("the manager has %s", args)
	}
	rec, err := workflow.ReadRecord(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	c := rec.Configuration
	if !slices.Equal(c.ControllerManager.ExtraArgs, []string{"--v=4"}) || c.NodeIP != "10.0.0.0/24" {
		t.Errorf("the record says %+v", c)
	}
	for _, said := range []config.CloudConfiguration{
		{Mode: config.ModeStaticPod},
		{Provider: "sample"},
		{Routes: new(true)},
		{NodeAgent: config.AgentPolicy{Enabled: new(true)}},
	} {
		for _, p := range []workflow.Phase{manager.RBAC(), manager.Addon(), manager.ControlPlane(), manager.NodeAgent()} {
			_, err := phasestest.Run{Config: phasestest.InitConfig, Inputs: workflow.Inputs{Request: workflow.Request{Flags: said}}}.Do(t, m, p)
			phasestest.WantError(t, err, "the cluster's record says", finding.ExitRefused)
		}
	}
}

// A machine that joined by hooks has no note of how far kubeadm has come: its files say so.
func TestCluster_Phase_OnAControlPlaneThatJoined(t *testing.T) {
	m := existingtest.LivingAs(t, scheduledOnprem())
	if err := os.Remove(m.Path(machine.StateFile)); err != nil {
		t.Fatal(err)
	}
	machinetest.Put(t, m, machine.KubeletConfig, "x")
	machinetest.Put(t, m, machine.KubeadmConfig, phasestest.JoinConfig)
	other := workflow.Inputs{Request: workflow.Request{Flags: config.CloudConfiguration{Provider: "sample"}}}
	_, err := phasestest.Run{Config: phasestest.InitConfig, Inputs: other}.Do(t, m, manager.RBAC())
	phasestest.WantError(t, err, "the cluster's record says", finding.ExitRefused)
}

// Until its Node has come through, what the user says to phase kubeadm-config corrects what was published.
func TestCluster_Phase_CorrectedBeforeANodeCameThrough(t *testing.T) {
	said := scheduledOnprem()
	said.ControllerManager.Image = "registry.example/wrong:1"
	m := existingtest.LivingAs(t, said)
	before := strings.Replace(phasestest.StateAt(state.StageFinished), "initialized: true\n", "", 1)
	machinetest.Put(t, m, machine.StateFile, before)
	own := machinetest.Content(m, machine.RecordFile)
	machinetest.Put(t, m, machine.RecordFile, strings.Replace(own, "wrong:1", "right:1", 1))
	for _, p := range []workflow.Phase{manager.Addon(), manager.Record()} {
		if out, err := (phasestest.Run{}).Do(t, m, p); err != nil {
			t.Fatalf("%s: %v\n%s", p.Name, err, out)
		}
	}
	rec, err := workflow.ReadRecord(t.Context(), kubernetes.NewForConfigOrDie(phasestest.Cluster.Config))
	if err != nil || rec.Configuration.ControllerManager.Image != "registry.example/right:1" {
		t.Errorf("the record says %+v, %v", rec, err)
	}
}

// A record with fields that this ccmadm does not know would lose them, whichever command writes it again.
func TestCluster_RecordOfANewerVersion(t *testing.T) {
	m := existingtest.LivingAs(t, scheduledOnprem())
	maps := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config).CoreV1().ConfigMaps(v1alpha1.Namespace)
	published, err := maps.Get(t.Context(), v1alpha1.RecordName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	newer := strings.Replace(published.Data[v1alpha1.RecordKey], "writtenBy: test", "writtenBy: v9.0.0\nfuture: {a: b}", 1)
	published.Data[v1alpha1.RecordKey] = newer
	if _, err := maps.Update(t.Context(), published, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, _, err = existingtest.ApplyRun(t, m, phasestest.CloudDocument+"nodeIP: 10.0.0.0/24\n", workflow.Inputs{})
	phasestest.WantError(t, err, "which ccmadm v9.0.0 has written", finding.ExitRefused)
	_, err = phasestest.Run{Config: phasestest.InitConfig}.Do(t, m, manager.Record())
	phasestest.WantError(t, err, "future", finding.ExitRefused)
	published, err = maps.Get(t.Context(), v1alpha1.RecordName, metav1.GetOptions{})
	if err != nil || published.Data[v1alpha1.RecordKey] != newer {
		t.Errorf("the record was changed: %v\n%s", err, published.Data[v1alpha1.RecordKey])
	}
}

// Where the API server does not answer, a phase does not take the machine's copy for the cluster's record.
func TestPhase_WithoutAnAnswerNothingIsDone(t *testing.T) {
	t.Parallel() // half a minute of patience
	m, _ := phasestest.ControlPlaneMachine(t, &rest.Config{Host: "https://127.0.0.1:1"})
	machinetest.Put(t, m, machine.StateFile, phasestest.StateAt(state.StageFinished))
	machinetest.Put(t, m, machine.RecordFile,
		"apiVersion: ccmadm.dev/v1alpha1\nkind: Record\n"+
			"configuration: {provider: onprem, mode: StaticPod, clusterName: ber1}\n")
	before := phasestest.Snapshot(t, m)
	_, err := phasestest.Run{Config: phasestest.InitConfig}.Do(t, m, manager.ControlPlane())
	phasestest.WantError(t, err, "compare with the cluster's record", finding.ExitRefused)
	if diff := cmp.Diff(before, phasestest.Snapshot(t, m)); diff != "" {
		t.Errorf("files (-before +after):\n%s", diff)
	}
	if out, err := (phasestest.Run{Config: phasestest.InitConfig}).Do(t, m, manager.Kubeconfig()); err != nil {
		t.Errorf("without it there may be no way to an answer: %v\n%s", err, out)
	}
}
