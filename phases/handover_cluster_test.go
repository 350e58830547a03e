package phases

import (
	"bytes"
	"net/http"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/existingtest"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func TestCluster_Apply_EveryChangeOfMode(t *testing.T) {
	m := existingtest.LivingAs(t, config.CloudConfiguration{Provider: "onprem", Mode: config.ModeDaemonSet, ClusterName: "ber1"})
	client := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config)
	for _, mode := range []config.Mode{"StaticPod", "Deployment", "StaticPod", "DaemonSet", "Deployment", "DaemonSet"} {
		file := phasestest.CloudDocument + "mode: " + string(mode) + "\n"
		if shown, differs, err := existingtest.ApplyRun(t, m, file, workflow.Inputs{DryRun: true}); err != nil || !differs {
			t.Fatalf("diff of mode %s: differs %v, %v\n%s", mode, differs, err, shown)
		}
		out, _, err := existingtest.ApplyRun(t, m, file, workflow.Inputs{Command: "apply"})
		if err != nil {
			t.Fatalf("mode %s: %v\n%s", mode, err, out)
		}
		want := "ServiceAccount"
		if mode == config.ModeStaticPod {
			want = "User"
		}
		if got := phasestest.Who(t, client); got != want || phasestest.Managers(t, client, m) != string(mode) {
			t.Errorf("mode %s: managers %s, permissions of %s\n%s", mode, phasestest.Managers(t, client, m), got, out)
		}
		if identity := machinetest.Content(m, machine.CCMKubeconfig) != ""; identity != (mode == config.ModeStaticPod) {
			t.Errorf("mode %s: there is an identity of a static pod: %v", mode, identity)
		}
		rec, err := workflow.ReadRecord(t.Context(), client)
		if err != nil || rec.Configuration.Mode != mode {
			t.Errorf("record of mode %s: %v", rec.Configuration.Mode, err)
		}
		if out, changed, err := existingtest.ApplyRun(t, m, "", workflow.Inputs{Command: "apply"}); err != nil || changed {
			t.Errorf("mode %s, once more: changed %v, %v\n%s", mode, changed, err, out)
		}
	}
	if runs, text := phasestest.JournalOf(t); len(runs) != 6 || !strings.Contains(text, "would remove "+machine.CCMManifest) {
		t.Errorf("%d runs in the journal\n%s", len(runs), text)
	}
}

// With an external CA the static pod's identity is the administrator's, and stays.
func TestCluster_Apply_ModeWithAnExternalCA(t *testing.T) {
	m := existingtest.LivingAs(t, config.CloudConfiguration{Provider: "onprem", Mode: config.ModeDaemonSet, ClusterName: "ber1"})
	if out, _, err := existingtest.ApplyRun(t, m, phasestest.CloudDocument+"mode: StaticPod\n", workflow.Inputs{}); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.Remove(m.Path(machine.PKIDir + "/ca.key")); err != nil {
		t.Fatal(err)
	}
	identity := machinetest.Content(m, machine.CCMKubeconfig)
	for _, mode := range []string{"DaemonSet", "StaticPod"} {
		out, _, err := existingtest.ApplyRun(t, m, phasestest.CloudDocument+"mode: "+mode+"\n", workflow.Inputs{})
		if err != nil || machinetest.Content(m, machine.CCMKubeconfig) != identity {
			t.Fatalf("mode %s: %v\n%s", mode, err, out)
		}
	}
	if _, _, err := existingtest.ApplyRun(t, m, phasestest.CloudDocument+"mode: DaemonSet\n", workflow.Inputs{}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(m.Path(machine.CCMKubeconfig)); err != nil {
		t.Fatal(err)
	}
	_, changed, err := existingtest.ApplyRun(t, m, phasestest.CloudDocument+"mode: StaticPod\n", workflow.Inputs{})
	phasestest.WantError(t, err, "has no ca.key", finding.ExitPreflight)
	if changed {
		t.Error("something was changed")
	}
}

// While another control plane has its static pod, that keeps its permissions.
func TestCluster_Apply_AStaticPodElsewhere(t *testing.T) {
	m := existingtest.LivingAs(t, config.CloudConfiguration{Provider: "onprem", Mode: config.ModeDaemonSet, ClusterName: "ber1"})
	client := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config)
	file := phasestest.CloudDocument + "mode: StaticPod\n"
	if out, _, err := existingtest.ApplyRun(t, m, file, workflow.Inputs{}); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	pod, err := record.ReadStaticPod(m, machine.CCMManifest)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("there", func(t *testing.T) {
		phasestest.AddNode(t, client, "cp2", "198.18.0.12", map[string]string{v1alpha1.ControlPlaneLabel: ""})
		phasestest.Mirrored(t, client, pod, "cp2", func(*corev1.Pod) {})
		out, _, err := existingtest.ApplyRun(t, m, phasestest.CloudDocument+"mode: DaemonSet\n", workflow.Inputs{})
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if got := phasestest.Who(t, client); got != "User ServiceAccount" {
			t.Errorf("permissions of %s", got)
		}
		if out, changed, err := existingtest.ApplyRun(t, m, "", workflow.Inputs{}); err != nil || changed {
			t.Errorf("once more: changed %v, %v\n%s", changed, err, out)
		}
	})
	phasestest.AddNode(t, client, "w1", "198.18.0.101", nil)
	phasestest.Mirrored(t, client, pod, "w1", func(*corev1.Pod) {}) // a worker may show what it will
	out, changed, err := existingtest.ApplyRun(t, m, "", workflow.Inputs{})
	if err != nil || !changed || phasestest.Who(t, client) != "ServiceAccount" {
		t.Errorf("once it is gone: changed %v, %v, permissions of %s\n%s", changed, err, phasestest.Who(t, client), out)
	}
	const name = "onprem-cloud-controller-manager"
	workload := manager.Wanted{Mode: config.ModeDaemonSet, Name: name}
	if err := workload.Runs(client)(t.Context()); err == nil ||
		!strings.HasPrefix(err.Error(), "DaemonSet/kube-system/"+name) {
		t.Errorf("the whole workload is not asked for: %v", err)
	}
}

// A control plane whose Node was deleted and registered again has no label, and its static pod keeps its permissions.
func TestCluster_Apply_AStaticPodWithoutTheLabel(t *testing.T) {
	m := existingtest.LivingAs(t, config.CloudConfiguration{Provider: "onprem", Mode: config.ModeDaemonSet, ClusterName: "ber1"})
	client := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config)
	if out, _, err := existingtest.ApplyRun(t, m, phasestest.CloudDocument+"mode: StaticPod\n", workflow.Inputs{}); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	pod, err := record.ReadStaticPod(m, machine.CCMManifest)
	if err != nil {
		t.Fatal(err)
	}
	phasestest.AddNode(t, client, "cp2", "198.18.0.12", nil)
	phasestest.Mirrored(t, client, pod, "cp2", func(*corev1.Pod) {})
	phasestest.ShowAPIServer(t, client, "cp2")
	out, _, err := existingtest.ApplyRun(t, m, phasestest.CloudDocument+"mode: DaemonSet\n", workflow.Inputs{})
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := phasestest.Who(t, client); got != "User ServiceAccount" {
		t.Errorf("permissions of %s", got)
	}
	var said bytes.Buffer
	r := workflow.NewRun(nil, workflow.Inputs{}, workflow.Streams{Out: &said, Err: &said}, "test")
	if err := (&manager.Wanted{Node: "cp1"}).NameOthers(t.Context(), r, client); err != nil {
		t.Fatal(err)
	}
	const want = "static pod is still on Node/cp2"
	const hint = "kubectl label node cp2 node-role.kubernetes.io/control-plane=;"
	if !strings.Contains(said.String(), want) || !strings.Contains(said.String(), hint) {
		t.Errorf("it says %s", &said)
	}
}

// What cannot be asked is not gone: neither permissions nor files are taken away.
func TestCluster_Apply_PodsCannotBeAsked(t *testing.T) {
	m := existingtest.LivingAs(t, config.CloudConfiguration{Provider: "onprem", Mode: config.ModeDaemonSet, ClusterName: "ber1"})
	client := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config)
	if out, _, err := existingtest.ApplyRun(t, m, phasestest.CloudDocument+"mode: StaticPod\n", workflow.Inputs{}); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	machinetest.Put(t, m, machine.AdminConf, phasestest.KubeconfigText(t, withoutPods(t)))
	before := phasestest.Snapshot(t, m)
	_, changed, err := existingtest.ApplyRun(t, m, phasestest.CloudDocument+"mode: DaemonSet\n", workflow.Inputs{})
	if err == nil || changed || !strings.Contains(err.Error(), "list the static pods of the cloud-controller-manager") {
		t.Errorf("changed %v, %v", changed, err)
	}
	got := phasestest.Managers(t, client, m) + " " + phasestest.Who(t, client)
	if got != "StaticPod User" || len(phasestest.Snapshot(t, m)) != len(before) {
		t.Errorf("managers, and whose permissions: %s", got)
	}
}

// withoutPods is the API server behind a proxy that answers 503 to every question for pods.
func withoutPods(t *testing.T) *rest.Config {
	return phasestest.Proxied(t, func(w http.ResponseWriter, r *http.Request) bool {
		answered := strings.HasSuffix(r.URL.Path, "/pods")
		if answered {
			http.Error(w, "no", http.StatusServiceUnavailable)
		}
		return answered
	})
}
