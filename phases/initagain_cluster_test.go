package phases

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/bootstrap"
	"github.com/ccmadm/ccmadm/phases/existingtest"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// credential is a file with a credential.
func credential(t *testing.T, key, value string) config.Credential {
	t.Helper()
	path := filepath.Join(t.TempDir(), key)
	if err := os.WriteFile(path, []byte(value), 0o600); err != nil {
		t.Fatal(err)
	}
	return config.Credential{Key: key, File: path}
}

// behindProxy is the environment of a shell that has a proxy.
func behindProxy(name string) string { return map[string]string{"HTTPS_PROXY": "http://shell:1"}[name] }

// unproven is the state of a machine whose Node no run of ours has seen initialized.
func unproven() string {
	return strings.Replace(phasestest.StateAt(state.StageFinished), "initialized: true\n", "", 1)
}

// initAgain runs phases as a run of the whole list does on a machine that has its cluster.
func initAgain(t *testing.T, m *machine.Machine, said config.CloudConfiguration, list ...workflow.Phase) (string, error) {
	t.Helper()
	r, out := phasestest.Run{Config: phasestest.InitConfig, Inputs: workflow.Inputs{Request: workflow.Request{Flags: said}}}.Must(t, m)
	err := r.Do(t.Context(), list)
	return out.String(), err
}

// The files of the first day do not come back over those that `ccmadm apply` has brought.
func TestCluster_InitAgain_KeepsTheFilesInUse(t *testing.T) {
	m := existingtest.Living(t)
	secrets := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config).CoreV1().Secrets("kube-system")
	inUse := func() map[string]string {
		t.Helper()
		secret, err := secrets.Get(t.Context(), v1alpha1.CloudConfigName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		files := map[string]string{}
		for key, data := range secret.Data {
			files[key] = string(data)
		}
		return files
	}
	now := []config.Credential{credential(t, "token", "new"), credential(t, "network", "net-1")}
	file := phasestest.CloudDocument + "credentials: [{key: token, file: " + now[0].File + "}, " +
		"{key: network, file: " + now[1].File + "}]\n"
	if out, _, err := existingtest.ApplyRun(t, m, file, workflow.Inputs{}); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := map[string]string{"token": "new", "network": "net-1"}
	const refusal = "init with the provider's token: what is in use in the cluster is another one"
	for _, tt := range []struct {
		name    string
		names   []config.Credential
		state   string
		wantErr string
		want    map[string]string
	}{
		{name: "names nothing", want: want},
		{name: "names what is in use", names: now, want: want},
		{name: "names one of two", names: now[:1], want: want},
		{
			name:  "names that of the first day",
			names: []config.Credential{credential(t, "token", "old")}, wantErr: refusal, want: want,
		},
		{
			name:  "corrects it before the Node has come through",
			names: []config.Credential{credential(t, "token", "right")}, state: unproven(),
			want: map[string]string{"token": "right"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.state != "" {
				machinetest.Put(t, m, machine.StateFile, tt.state)
			}
			_, err := initAgain(t, m, config.CloudConfiguration{Credentials: tt.names}, manager.CloudConfig())
			phasestest.WantError(t, err, tt.wantErr, finding.ExitRefused)
			if diff := cmp.Diff(tt.want, inUse()); diff != "" {
				t.Errorf("the Secret (-want +got):\n%s", diff)
			}
		})
	}
}

// A Secret that cannot be asked for is not gone.
func TestCluster_InitAgain_FilesCannotBeAsked(t *testing.T) {
	m := existingtest.Living(t)
	silent := phasestest.Proxied(t, func(w http.ResponseWriter, r *http.Request) bool {
		answered := strings.HasSuffix(r.URL.Path, "/secrets/"+v1alpha1.CloudConfigName)
		if answered {
			http.Error(w, "no", http.StatusServiceUnavailable)
		}
		return answered
	})
	machinetest.Put(t, m, machine.AdminConf, phasestest.KubeconfigText(t, silent))
	said := config.CloudConfiguration{Credentials: []config.Credential{credential(t, "token", "a-token")}}
	_, err := initAgain(t, m, said, manager.CloudConfig())
	phasestest.WantError(t, err, "find the provider's files that are in use", finding.ExitRefused)
}

// A list of machines is newer by its serial; the file that points at it is the same.
func TestCluster_InitAgain_WithAnInventory(t *testing.T) {
	said := scheduledOnprem()
	said.CloudConfig.File = filepath.Join(t.TempDir(), "onprem.yaml")
	said.Inventory = filepath.Join(t.TempDir(), "machines.yaml")
	put := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(said.CloudConfig.File, "apiVersion: ccmadm.dev/v1alpha1\nkind: OnPremConfiguration # ours\nlabels: {  a: b}\n")
	const list = "apiVersion: ccmadm.dev/v1alpha1\nkind: Inventory\nmetadata: {name: ber1, serial: 1}\n" +
		"machines: [{name: cp1}]\n"
	put(said.Inventory, list)
	m := existingtest.LivingAs(t, said)
	put(said.Inventory, strings.Replace(list, "serial: 1", "serial: 2", 1))
	for range 2 {
		if out, err := initAgain(t, m, said, manager.CloudConfig()); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	put(said.CloudConfig.File, "apiVersion: ccmadm.dev/v1alpha1\nkind: OnPremConfiguration\n")
	_, err := initAgain(t, m, said, manager.CloudConfig())
	phasestest.WantError(t, err, "init with the provider's cloud.conf", finding.ExitRefused)
}

// The manager keeps the proxy that it has, or has none, whatever the shell says that runs init again.
func TestCluster_InitAgain_KeepsTheProxies(t *testing.T) {
	m := existingtest.Living(t)
	proxiesOf := func(single bool) []string {
		t.Helper()
		r, _ := phasestest.Run{Config: phasestest.InitConfig, Inputs: workflow.Inputs{Request: workflow.Request{Single: single}}}.Must(t, m)
		r.Getenv = behindProxy
		s, err := r.InPhase(manager.Addon().Name).Settings(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s.Proxies
	}
	for _, single := range []bool{false, true} {
		if got := proxiesOf(single); len(got) != 0 {
			t.Errorf("single %v: proxies %v; the manager has none", single, got)
		}
	}
	machinetest.Put(t, m, machine.StateFile, unproven())
	if got := proxiesOf(false); len(got) != 1 {
		t.Errorf("proxies %v; until a Node has come through, the shell says", got)
	}
}

func TestCluster_InitAgain_KeepsTheProxyOfAStaticPod(t *testing.T) {
	said := scheduledOnprem()
	said.Mode = config.ModeStaticPod
	m := existingtest.LivingAs(t, said)
	write := func(env func(string) string) string {
		t.Helper()
		r, out := phasestest.Run{Config: phasestest.InitConfig}.Must(t, m)
		r.Getenv = env
		if err := r.Do(t.Context(), []workflow.Phase{manager.ControlPlane()}); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return machinetest.Content(m, machine.CCMManifest)
	}
	first := write(behindProxy)
	again := write(func(string) string { return "" })
	if diff := cmp.Diff(first, again); diff != "" || !strings.Contains(again, "http://shell:1") {
		t.Errorf("the static pod (-first +again):\n%s", diff)
	}
}

// A change of mode that was cut short is nobody's to undo by half: the static pod that works keeps its permissions, and
// gets no rival. The repair of init is a run like another one, once that has ended.
func TestCluster_InitAgain_BesideARunThatWasCutShort(t *testing.T) {
	m := existingtest.LivingAs(t, scheduledOnprem())
	client := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config)
	cutShort(t, client, m, phasestest.CloudDocument+"mode: StaticPod\n", 6)
	const left = "StaticPod, permissions of User ServiceAccount"
	got := func() string {
		return phasestest.Managers(t, client, m) + ", permissions of " + phasestest.Who(t, client)
	}
	if got() != left {
		t.Fatalf("cut short with managers %s", got())
	}
	for _, single := range []bool{false, true} {
		for _, list := range [][]workflow.Phase{{manager.RBAC(), manager.Addon()}, {manager.Record(), manager.Addon()}} {
			r, _ := phasestest.Run{Config: phasestest.InitConfig, Inputs: workflow.Inputs{Request: workflow.Request{Single: single}}}.Must(t, m)
			err := r.Do(t.Context(), list)
			phasestest.WantError(t, err, "run 1, ccmadm apply on cp1, is not finished", finding.ExitRefused)
			if got() != left {
				t.Errorf("managers %s, want %s", got(), left)
			}
		}
	}
	if out, _, err := existingtest.ApplyRun(t, m, "", workflow.Inputs{Command: "apply"}); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const name = "onprem-cloud-controller-manager"
	sets := client.AppsV1().DaemonSets("kube-system")
	if err := sets.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	before, _ := phasestest.JournalOf(t)
	for _, became := range []string{"created", "unchanged"} {
		want := "DaemonSet/kube-system/" + name + " " + became
		out, err := initAgain(t, m, config.CloudConfiguration{}, manager.RBAC(), manager.Addon(), manager.Record())
		if err != nil || !strings.Contains(out, want) {
			t.Fatalf("want %q: %v\n%s", want, err, out)
		}
		runs, _ := phasestest.JournalOf(t)
		if last := phasestest.Newest(runs); len(runs) != len(before)+1 || last.Command != "init" || len(last.Steps) != 1 {
			t.Errorf("%d runs in the journal, the last one %+v", len(runs), last)
		}
	}
}

// Nobody's settings are lost to a run of init that has read the record before they were there.
func TestCluster_InitAgain_OneRunAtATime(t *testing.T) {
	m := existingtest.LivingAs(t, scheduledOnprem())
	client := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config)
	drift := func() {
		t.Helper()
		err := client.RbacV1().ClusterRoles().Delete(t.Context(), "ccmadm:onprem", metav1.DeleteOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	drift()
	late, _ := phasestest.Run{Config: phasestest.InitConfig}.Must(t, m)
	if _, err := late.Settings(t.Context()); err != nil {
		t.Fatal(err)
	}
	other, err := journal.Open(t.Context(), client, journal.Run{Command: "apply", Machine: "cp2"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = initAgain(t, m, config.CloudConfiguration{}, manager.RBAC())
	phasestest.WantError(t, err, "run 1, ccmadm apply on cp2", finding.ExitRefused)
	if err := other.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	file := phasestest.CloudDocument + "controllerManager: {extraArgs: [--v=4]}\n"
	if out, _, err := existingtest.ApplyRun(t, m, file, workflow.Inputs{Command: "apply"}); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	drift()
	err = late.Do(t.Context(), []workflow.Phase{manager.RBAC(), manager.Addon(), manager.Record()})
	phasestest.WantError(t, err, "the cluster's record changed after this run read it", finding.ExitRefused)
	rec, err := workflow.ReadRecord(t.Context(), client)
	if err != nil || len(rec.Configuration.ControllerManager.ExtraArgs) != 1 {
		t.Errorf("the record says %+v, %v", rec, err)
	}
}

// On each control plane that has not had its turn, a static pod works with permissions that the new manager does not
// need.
func TestCluster_InitAgain_AStaticPodElsewhere(t *testing.T) {
	said := scheduledOnprem()
	said.Mode = config.ModeStaticPod
	m := existingtest.LivingAs(t, said)
	client := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config)
	if out, err := initAgain(t, m, said, manager.ControlPlane()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	pod, err := record.ReadStaticPod(m, machine.CCMManifest)
	if err != nil {
		t.Fatal(err)
	}
	phasestest.AddNode(t, client, "cp2", "198.18.0.12", map[string]string{v1alpha1.ControlPlaneLabel: ""})
	phasestest.Mirrored(t, client, pod, "cp2", func(*corev1.Pod) {})
	if out, _, err := existingtest.ApplyRun(t, m, phasestest.CloudDocument+"mode: DaemonSet\n", workflow.Inputs{Command: "apply"}); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := initAgain(t, m, config.CloudConfiguration{}, manager.RBAC())
	if err != nil || phasestest.Who(t, client) != "User ServiceAccount" {
		t.Errorf("permissions of %s, %v\n%s", phasestest.Who(t, client), err, out)
	}
}

// A phase by itself goes by the files in use, wherever those of the first day were: most phases need none of them.
func TestCluster_Phase_GoesByTheFilesInUse(t *testing.T) {
	first := credential(t, "token", "a-token")
	m := existingtest.LivingAs(t, config.CloudConfiguration{
		Provider: "hetzner", Mode: config.ModeDaemonSet, ClusterName: "ber1",
		Credentials: []config.Credential{first},
	})
	if err := os.Remove(first.File); err != nil {
		t.Fatal(err)
	}
	for _, p := range []workflow.Phase{manager.RBAC(), manager.Addon(), manager.CloudConfig()} {
		if out, err := (phasestest.Run{}).Do(t, m, p); err != nil || !strings.Contains(out, "unchanged") {
			t.Errorf("%s: %v\n%s", p.Name, err, out)
		}
	}
}

// Tokens last a day: the control plane that has none is as well as before.
func TestCluster_InitAgain_WithoutAToken(t *testing.T) {
	m := existingtest.LivingAs(t, scheduledOnprem())
	machinetest.Put(t, m, machine.PKIDir+"/ca.crt", string(phasestest.Cluster.Config.CAData))
	secrets := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config).CoreV1().Secrets("kube-system")
	tokens := metav1.ListOptions{FieldSelector: "type=" + string(corev1.SecretTypeBootstrapToken)}
	if err := secrets.DeleteCollection(t.Context(), metav1.DeleteOptions{}, tokens); err != nil {
		t.Fatal(err)
	}
	out, err := initAgain(t, m, config.CloudConfiguration{}, bootstrap.ShowJoinCommand())
	if err != nil || !strings.Contains(out, "kubeadm token create") {
		t.Errorf("%v\n%s", err, out)
	}
	_, err = phasestest.Run{Config: phasestest.InitConfig}.Do(t, m, bootstrap.ShowJoinCommand())
	phasestest.WantError(t, err, "no bootstrap token is valid", finding.ExitError)
}

// Workers whose upgrade has failed have no settings: they are nothing that init could undo by half.
func TestCluster_InitAgain_BehindWorkersThatFailed(t *testing.T) {
	m := existingtest.LivingAs(t, scheduledOnprem())
	client := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config)
	workers := journal.Run{Command: journal.CommandUpgradeWorkers + " v1.36.3", Machine: "cp1", Version: "test"}
	j, err := journal.Open(t.Context(), client, workers)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.End(t.Context(), errors.New("node w1: run ssh")); err != nil {
		t.Fatal(err)
	}
	const name = "onprem-cloud-controller-manager"
	if err := client.AppsV1().DaemonSets("kube-system").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	out, err := initAgain(t, m, config.CloudConfiguration{}, manager.RBAC(), manager.Addon(), manager.Record())
	if err != nil || !strings.Contains(out, "DaemonSet/kube-system/"+name+" created") {
		t.Errorf("%v\n%s", err, out)
	}
}
