package phases

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/existingtest"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func TestCluster_Apply_RepairsWhatHasDrifted(t *testing.T) {
	m := existingtest.Living(t)
	client := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config)
	ctx := t.Context()
	if out, changed, err := existingtest.ApplyRun(t, m, "", workflow.Inputs{}); err != nil || changed {
		t.Fatalf("a cluster that is as its record says: changed %v, %v\n%s", changed, err, out)
	}
	drift := map[string]func() error{
		"DaemonSet/kube-system/hetzner-cloud-controller-manager created": func() error {
			return client.AppsV1().DaemonSets("kube-system").Delete(ctx, "hetzner-cloud-controller-manager", metav1.DeleteOptions{})
		},
		"ServiceAccount/kube-system/hetzner-cloud-controller-manager created": func() error {
			return client.CoreV1().ServiceAccounts("kube-system").Delete(ctx, "hetzner-cloud-controller-manager", metav1.DeleteOptions{})
		},
	}
	for what, happens := range drift {
		t.Run(what, func(t *testing.T) {
			if err := happens(); err != nil {
				t.Fatal(err)
			}
			shown, differs, err := existingtest.ApplyRun(t, m, "", workflow.Inputs{DryRun: true})
			if subject := strings.Fields(what)[0]; err != nil || !differs || !strings.Contains(shown, "would create "+subject) {
				t.Errorf("diff: differs %v, %v\n%s", differs, err, shown)
			}
			out, changed, err := existingtest.ApplyRun(t, m, "", workflow.Inputs{})
			if err != nil || !changed || !strings.Contains(out, what) {
				t.Errorf("apply: changed %v, %v\n%s", changed, err, out)
			}
			if out, changed, err := existingtest.ApplyRun(t, m, "", workflow.Inputs{}); err != nil || changed {
				t.Errorf("once more: changed %v, %v\n%s", changed, err, out)
			}
		})
	}
}

// What somebody else has set is theirs, until force says otherwise.
func TestCluster_Apply_AnArgumentThatSomebodyChanged(t *testing.T) {
	m := existingtest.Living(t)
	sets := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config).AppsV1().DaemonSets("kube-system")
	const name = "hetzner-cloud-controller-manager"
	before := phasestest.ArgsOf(t, sets.Get, name)
	patch, err := json.Marshal([]map[string]any{{
		"op": "add", "path": "/spec/template/spec/containers/0/args", "value": append([]string{"--v=9"}, before...),
	}})
	if err != nil {
		t.Fatal(err)
	}
	edited := metav1.PatchOptions{FieldManager: "kubectl-edit"}
	if _, err := sets.Patch(t.Context(), name, types.JSONPatchType, patch, edited); err != nil {
		t.Fatal(err)
	}
	shown, differs, err := existingtest.ApplyRun(t, m, "", workflow.Inputs{DryRun: true})
	if err != nil || !differs || !strings.Contains(shown, "-        - --v=9") {
		t.Errorf("diff: differs %v, %v\n%s", differs, err, shown)
	}
	_, changed, err := existingtest.ApplyRun(t, m, phasestest.CloudDocument+"controllerManager: {extraArgs: [--v=5]}\n", workflow.Inputs{})
	var refused *finding.Error
	if !errors.As(err, &refused) || refused.Code != finding.ExitRefused || !strings.Contains(refused.Hint, "--force") || changed {
		t.Errorf("without force: changed %v, %v", changed, err)
	}
	if out, _, err := existingtest.ApplyRun(t, m, "", workflow.Inputs{Force: true}); err != nil {
		t.Errorf("with force: %v\n%s", err, out)
	}
	if after := phasestest.ArgsOf(t, sets.Get, name); strings.Join(after, " ") != strings.Join(before, " ") {
		t.Errorf("arguments are %q, want %q", after, before)
	}
}

func TestCluster_Apply_AFile(t *testing.T) {
	m := existingtest.Living(t)
	client := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config)
	file := phasestest.CloudDocument + "mode: Deployment\nlifecycle: \"Off\"\ncontrollerManager: {version: v1.99.0, extraArgs: [--v=4]}\n" +
		"---\n" + phasestest.InitConfig
	out, changed, err := existingtest.ApplyRun(t, m, file, workflow.Inputs{})
	if err != nil || !changed || !strings.Contains(out, "InitConfiguration is not applied") {
		t.Fatalf("changed %v, %v\n%s", changed, err, out)
	}
	const name = "hetzner-cloud-controller-manager"
	deployment, err := client.AppsV1().Deployments("kube-system").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	container := deployment.Spec.Template.Spec.Containers[0]
	args := strings.Join(append(container.Command, container.Args...), " ")
	if !strings.HasSuffix(container.Image, ":v1.99.0") || !strings.Contains(args, "--v=4") ||
		!strings.Contains(args, "-cloud-node-lifecycle-controller") {
		t.Errorf("image %s, arguments %s", container.Image, args)
	}
	if _, err := client.AppsV1().DaemonSets("kube-system").Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the DaemonSet is still there: %v", err)
	}
	rec, err := workflow.ReadRecord(t.Context(), client)
	if err != nil || rec.Configuration.Mode != config.ModeDeployment || rec.Configuration.Lifecycle != config.LifecycleOff {
		t.Errorf("record: %+v, %v", rec, err)
	}
	secret, err := client.CoreV1().Secrets("kube-system").Get(t.Context(), v1alpha1.CloudConfigName, metav1.GetOptions{})
	if err != nil || string(secret.Data["token"]) != "a-token" {
		t.Errorf("credentials that the file does not name: %v", err)
	}
	for _, again := range []string{file, "", phasestest.CloudDocument + "mode: Auto\nprovider: auto\n"} {
		if out, changed, err := existingtest.ApplyRun(t, m, again, workflow.Inputs{}); err != nil || changed {
			t.Errorf("once more with %q: changed %v, %v\n%s", again, changed, err, out)
		}
	}
	if out, _, err := existingtest.ApplyRun(t, m, phasestest.CloudDocument+"controllerManager: {extraArgs: []}\n", workflow.Inputs{}); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	deployment, err = client.AppsV1().Deployments("kube-system").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil || strings.Contains(strings.Join(deployment.Spec.Template.Spec.Containers[0].Args, " "), "--v=4") {
		t.Errorf("an empty list takes away: %v", err)
	}
}

// What a file does not name stays, whatever the environment of this shell says: it may be for another cluster.
func TestCluster_Apply_Credentials(t *testing.T) {
	m := existingtest.Living(t)
	client := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config)
	secrets := client.CoreV1().Secrets("kube-system")
	network := filepath.Join(t.TempDir(), "network")
	if err := os.WriteFile(network, []byte("net-1"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := phasestest.CloudDocument + "credentials: [{key: network, file: " + network + "}]\n"
	if out, changed, err := existingtest.ApplyRun(t, m, file, workflow.Inputs{}); err != nil || !changed {
		t.Fatalf("changed %v, %v\n%s", changed, err, out)
	}
	secret, err := secrets.Get(t.Context(), v1alpha1.CloudConfigName, metav1.GetOptions{})
	if err != nil || string(secret.Data["token"]) != "a-token" || string(secret.Data["network"]) != "net-1" {
		t.Errorf("keys %v, %v, want token and network", len(secret.Data), err)
	}
	_, _, err = existingtest.ApplyRun(t, m, phasestest.CloudDocument+"credentials: []\n", workflow.Inputs{})
	phasestest.WantError(t, err, "an empty list would take all away", finding.ExitPreflight)

	if err := secrets.Delete(t.Context(), v1alpha1.CloudConfigName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if out, changed, err := existingtest.ApplyRun(t, m, "", workflow.Inputs{}); err != nil || !changed {
		t.Errorf("the files are still where they were read: changed %v, %v\n%s", changed, err, out)
	}
	secret, err = secrets.Get(t.Context(), v1alpha1.CloudConfigName, metav1.GetOptions{})
	if err != nil || string(secret.Data["token"]) != "a-token" {
		t.Errorf("the Secret is not restored: %v", err)
	}
	if err := secrets.Delete(t.Context(), v1alpha1.CloudConfigName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	machinetest.Put(t, m, machine.RecordFile, "") // another control plane, which has read no file
	if err := os.Remove(m.Path(machine.RecordFile)); err != nil {
		t.Fatal(err)
	}
	refused := func() {
		t.Helper()
		_, _, err = existingtest.ApplyRun(t, m, "", workflow.Inputs{})
		phasestest.WantError(t, err, "Secret/kube-system/ccmadm-cloud-config is gone", finding.ExitRefused)
	}
	refused()
	lists := client.CoreV1().ConfigMaps("kube-system")
	list, err := lists.Get(t.Context(), v1alpha1.AppliedName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	former := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.FormerAppliedName, Labels: list.Labels}, Data: list.Data}
	phasestest.Made(t, lists, former) // a cluster whose list has its former name
	if err := lists.Delete(t.Context(), v1alpha1.AppliedName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	refused()
}

// A proxy of the first day stays, and that of this shell does not come in.
func TestCluster_Apply_Proxies(t *testing.T) {
	m := existingtest.Living(t)
	sets := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config).AppsV1().DaemonSets("kube-system")
	r, _ := phasestest.Run{Inputs: workflow.Inputs{Existing: true}}.Must(t, m)
	r.Getenv = func(name string) string { return map[string]string{"HTTPS_PROXY": "http://shell:1"}[name] }
	if s, err := r.Settings(t.Context()); err != nil || len(s.Proxies) != 0 {
		t.Errorf("proxies %v, %v; the manager has none", s.Proxies, err)
	}
	if err := sets.Delete(t.Context(), "hetzner-cloud-controller-manager", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r, _ = phasestest.Run{Inputs: workflow.Inputs{Existing: true}}.Must(t, m)
	r.Getenv = func(name string) string { return map[string]string{"HTTPS_PROXY": "http://shell:1"}[name] }
	if s, err := r.Settings(t.Context()); err != nil || len(s.Proxies) != 1 {
		t.Errorf("proxies %v, %v; where there is no manager, the shell says", s.Proxies, err)
	}
}

func TestCluster_Apply_Refuses(t *testing.T) {
	m := existingtest.Living(t)
	before := phasestest.Snapshot(t, m)
	for _, tt := range []struct {
		name, file, wantErr string
		code                finding.ExitCode
	}{
		{name: "another provider", file: "provider: onprem\n", code: finding.ExitRefused, wantErr: `apply with provider "onprem"`},
		{name: "mode Manual", file: "mode: Manual\n", code: finding.ExitRefused, wantErr: `apply with mode "Manual"`},
		{name: "another name", file: "clusterName: ber2\n", code: finding.ExitRefused, wantErr: `apply with clusterName "ber2"`},
		{name: "an unknown field", file: "imago: x\n", code: finding.ExitUsage, wantErr: "imago"},
		{
			name: "a credential that is not there", file: "credentials: [{key: token, file: /nowhere}]\n",
			code: finding.ExitPreflight, wantErr: "/nowhere",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, changed, err := existingtest.ApplyRun(t, m, phasestest.CloudDocument+tt.file, workflow.Inputs{})
			phasestest.WantError(t, err, tt.wantErr, tt.code)
			if after := phasestest.Snapshot(t, m); changed || len(after) != len(before) {
				t.Errorf("something changed: %v", after)
			}
		})
	}
	t.Run("another provider, with the Nodes that have IDs", func(t *testing.T) {
		nodes := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config).CoreV1().Nodes()
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w7"}, Spec: corev1.NodeSpec{ProviderID: "hcloud://7"}}
		if _, err := nodes.Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		_, _, err := existingtest.ApplyRun(t, m, phasestest.CloudDocument+"provider: onprem\n", workflow.Inputs{})
		phasestest.WantError(t, err, "provider IDs cannot change: Node/w7 hcloud://7", finding.ExitRefused)
		if err := nodes.Delete(t.Context(), "w7", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	_, _, err := existingtest.ApplyRun(t, m, phasestest.InitConfig, workflow.Inputs{})
	phasestest.WantError(t, err, "no CloudConfiguration was found in it", finding.ExitUsage)
}

// Without an answer nothing is known, and nothing is done.
func TestCluster_Apply_WithoutARecord(t *testing.T) {
	m, _ := phasestest.ControlPlaneMachine(t, phasestest.Cluster.Config)
	_, _, err := existingtest.ApplyRun(t, m, "", workflow.Inputs{})
	phasestest.WantError(t, err, "compare with the cluster's record", finding.ExitRefused)
	bare, _ := machinetest.New(t)
	_, _, err = existingtest.ApplyRun(t, bare, "", workflow.Inputs{})
	phasestest.WantError(t, err, "there is no /etc/kubernetes/admin.conf", finding.ExitRefused)
}
