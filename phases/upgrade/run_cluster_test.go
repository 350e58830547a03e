package upgrade

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/existingtest"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/rollback"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func TestCluster_Upgrade_Apply(t *testing.T) {
	u := newUpgradable(t)
	u.kubelet(t, nil)
	found := u.kubeadm(t, "cp1")
	u.runner.During = func(during func(string)) func(string) {
		return func(line string) {
			during(line)
			if strings.HasPrefix(line, "kubeadm upgrade") { // takes the bare flag for the name of the next
				machinetest.Put(t, u.m, machine.KubeadmFlags, "KUBELET_KUBEADM_ARGS=\"--v=2\"\n")
			}
		}
	}(u.runner.During)
	out, err := u.do(t, Upgrade{Version: "v1.36.3", Rest: []string{"--etcd-upgrade=false"}})
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if strings.Contains(*found, "cloud_provider") || strings.Contains(*found, "TopologyAwareHints") ||
		strings.Contains(*found, "ControlPlaneKubeletLocalMode") || !strings.Contains(*found, "NoSuchThing=false") {
		t.Errorf("kubeadm was given\n%s", *found)
	}
	kubelets, err := u.client.CoreV1().ConfigMaps("kube-system").Get(t.Context(), kubeletConfigName, metav1.GetOptions{})
	if err != nil || strings.Contains(kubelets.Data["kubelet"], "MemoryManager") {
		t.Errorf("kubelets are given %v, %v", kubelets.Data, err)
	}
	proxies, err := u.client.CoreV1().ConfigMaps("kube-system").Get(t.Context(), kubeProxyName, metav1.GetOptions{})
	if err != nil || strings.Contains(proxies.Data[kubeProxyKey], "ServiceTrafficDistribution") ||
		!strings.Contains(proxies.Data[kubeProxyKey], "NFTablesProxyMode: true") || proxies.Data["kubeconfig.conf"] == "" {
		t.Errorf("kube-proxies are given %v, %v", proxies.Data, err)
	}
	if want := "kubeadm upgrade apply v1.36.3 --yes --etcd-upgrade=false"; !slices.Contains(u.runner.Ran, want) {
		t.Errorf("it ran %q, not %q", u.runner.Ran, want)
	}
	if got := machinetest.Content(u.m, machine.KubeadmFlags); !strings.Contains(got, "--cloud-provider=external --v=2") &&
		!strings.Contains(got, "--v=2 --cloud-provider=external") {
		t.Errorf("the kubelet's flags are %s", got)
	}
	if got := u.managerImage(t); got != u.images["1.36"] || got == u.images["1.35"] {
		t.Errorf("the manager is %s, want %s", got, u.images["1.36"])
	}
	rec, err := workflow.ReadRecord(t.Context(), u.client)
	if err != nil || rec.KubernetesVersion != "v1.36.3" || rec.Configuration.ControllerManager.Image != u.images["1.36"] {
		t.Errorf("the record says %+v, %v", rec, err)
	}
	runs, text := phasestest.JournalOf(t)
	var names []string
	for _, s := range runs[0].Steps {
		names = append(names, s.Name)
	}
	if got := strings.Join(names, " "); got != "configuration configuration configuration kubeadm kubelet-flags addon record" ||
		runs[0].State != journal.Done || !strings.Contains(text, "name: cloud_provider, value: external") {
		t.Errorf("steps %s\n%s", got, text)
	}
	ran := u.ran()
	if out, err := u.do(t, Upgrade{Version: "v1.36.3"}); err != nil || u.ran() != ran {
		t.Errorf("once more: %v, kubeadm ran %d times\n%s", err, u.ran()-ran, out)
	}
	if again, _ := phasestest.JournalOf(t); len(again) != 1 {
		t.Errorf("%d runs after one that changes nothing", len(again))
	}
	back, _, err := rollback.FormerSettings(&runs[0])
	if err != nil {
		t.Fatal(err)
	}
	out, _, err = existingtest.ApplyRun(t, u.m, "", workflow.Inputs{Command: "rollback 1", Request: workflow.Request{Flags: *back}})
	if err != nil || u.managerImage(t) != u.images["1.35"] {
		t.Errorf("rolled back to %s: %v\n%s", u.managerImage(t), err, out)
	}
}

// Behind a load balancer any API server may be asked: the last control plane brings the manager along.
func TestCluster_Upgrade_TheManagerWaitsForTheOldestAPIServer(t *testing.T) {
	u := newUpgradable(t)
	u.node(t, "cp2", true)
	u.kubelet(t, nil)
	u.kubeadm(t, "cp1")
	out, err := u.do(t, Upgrade{Version: "v1.36.3"})
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := u.managerImage(t); got != u.images["1.35"] || !strings.Contains(out, "the API servers of cp2 come first") {
		t.Errorf("the manager is %s\n%s", got, out)
	}
	rec, err := workflow.ReadRecord(t.Context(), u.client)
	if err != nil || rec.KubernetesVersion != "v1.36.3" || rec.Configuration.ControllerManager.Image != u.images["1.35"] {
		t.Errorf("the record says %+v, %v", rec, err)
	}
	if out, err := u.do(t, Upgrade{}); err != nil || u.managerImage(t) != u.images["1.35"] {
		t.Errorf("once more: %v\n%s", err, out)
	}
	u.second(t)
	if out, err := u.do(t, Upgrade{}); err != nil || u.managerImage(t) != u.images["1.36"] {
		t.Errorf("the last one: the manager is %s, %v\n%s", u.managerImage(t), err, out)
	}
}

func TestCluster_Upgrade_Refused(t *testing.T) {
	u := newUpgradable(t)
	u.kubelet(t, &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such thing"})
	for _, tt := range []struct {
		name, version, want string
		given               func()
	}{
		{name: "an older version", version: "v1.34.4", want: "v1.34.4 is older than v1.35.4"},
		{name: "two minors up", version: "v1.37.0", want: "v1.37.0 is more than one minor version newer"},
		{name: "a pre-release", version: "v1.36.0-rc.1", want: "v1.36.0-rc.1 is a pre-release"},
		{name: "kubeadm of another version", version: "v1.36.2", want: "the installed kubeadm is of v1.36.3, not v1.36.2"},
		{
			name: "kubeadm of the former version", version: "v1.36.3", want: "the installed kubeadm is of v1.35.4, not v1.36.3",
			given: func() { u.runner.Answers["kubeadm version"] = "v1.35.4\n" },
		},
		{name: "a machine that is not the first", want: "`ccmadm upgrade apply v1.36.3` on one control plane comes first"},
		{name: "an image that does not exist", version: "v1.36.3", want: "ImagePullBackOff: no such thing"},
		{
			name: "a kubelet that would not come back", version: "v1.36.3", want: "kubelet has --cloud-config=/x",
			given: func() { machinetest.Put(t, u.m, "/etc/default/kubelet", "KUBELET_EXTRA_ARGS=--cloud-config=/x\n") },
		},
		{
			name: "no room for a copy of etcd", version: "v1.36.3", want: "kubeadm keeps a copy of etcd's data there",
			given: func() {
				machinetest.Put(t, u.m, machine.EtcdManifest, phasestest.EtcdIn("/var/lib/etcd"))
				putSparse(t, u.m, "/var/lib/etcd/member/snap/db", 1<<42)
			},
		},
		{
			name: "upgraded by hand, half", version: "v1.36.3", want: "an upgrade was begun by hand there",
			given: func() { u.image(t, "cp1", "v1.36.3") },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			kubeadm, files := u.runner.Answers["kubeadm version"], phasestest.Snapshot(t, u.m)
			if tt.given != nil {
				tt.given()
			}
			before := u.configuration(t)
			out, err := u.do(t, Upgrade{Version: tt.version})
			var known *finding.Error
			if !errors.As(err, &known) || known.Code != finding.ExitPreflight ||
				!strings.Contains(known.Error()+known.Hint, tt.want) {
				t.Errorf("got %v, %+v, want %q\n%s", err, known, tt.want, out)
			}
			for _, path := range []string{"/etc/default/kubelet", machine.EtcdManifest, "/var/lib/etcd/member/snap/db"} {
				if err := os.Remove(u.m.Path(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Fatal(err)
				}
			}
			if u.ran() > 0 || u.configuration(t) != before || !maps.Equal(phasestest.Snapshot(t, u.m), files) {
				t.Error("something was changed")
			}
			if runs, _ := phasestest.JournalOf(t); len(runs) > 0 {
				t.Error("it is in the journal")
			}
			u.runner.Answers["kubeadm version"] = kubeadm
			u.image(t, "cp1", "v1.35.4")
		})
	}
}

func (u *upgradable) configuration(t *testing.T) string {
	t.Helper()
	cm, err := u.client.CoreV1().ConfigMaps("kube-system").Get(t.Context(), workflow.KubeadmConfigName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return cm.ResourceVersion
}

// The same command goes on: also where kubeadm has begun, and the cluster looks half upgraded.
func TestCluster_Upgrade_GoesOn(t *testing.T) {
	u := newUpgradable(t)
	u.kubelet(t, nil)
	u.kubeadm(t, "cp1")
	whole := u.runner.During
	u.runner.During = func(line string) {
		if strings.HasPrefix(line, "kubeadm upgrade") {
			u.image(t, "cp1", "v1.36.3")
		}
	}
	u.runner.Fails["kubeadm upgrade apply"] = errors.New("signal: terminated")
	apply := Upgrade{Version: "v1.36.3"}
	if out, err := u.do(t, apply); err == nil || u.ran() != 1 || u.managerImage(t) != u.images["1.35"] {
		t.Fatalf("kubeadm was terminated: %v\n%s", err, out)
	}
	delete(u.runner.Fails, "kubeadm upgrade apply")
	if out, err := u.do(t, apply); err == nil || !strings.Contains(err.Error(), "kubeadm succeeded, but") {
		t.Fatalf("kubeadm has changed nothing: %v\n%s", err, out)
	}
	u.runner.During = whole
	if out, err := u.do(t, apply); err != nil || u.managerImage(t) != u.images["1.36"] || u.ran() != 3 {
		t.Errorf("%v, kubeadm ran %d times\n%s", err, u.ran(), out)
	}
	runs, text := phasestest.JournalOf(t)
	if len(runs) != 3 || runs[1].State != journal.Failed || runs[2].State != journal.Done {
		t.Errorf("the journal says\n%s", text)
	}
}

func TestCluster_Upgrade_TwoAtATime(t *testing.T) {
	u := newUpgradable(t)
	u.kubelet(t, nil)
	u.kubeadm(t, "cp1")
	other, err := journal.Open(t.Context(), u.client, journal.Run{Command: "upgrade node", Machine: "cp2"})
	if err != nil {
		t.Fatal(err)
	}
	before := u.configuration(t)
	_, err = u.do(t, Upgrade{Version: "v1.36.3"})
	phasestest.WantError(t, err, "another run is under way: ccmadm upgrade node on cp2", finding.ExitRefused)
	if u.ran() > 0 || u.configuration(t) != before {
		t.Error("something was changed")
	}
	if err := other.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Kubeadm takes a machine for a control plane by its API server's manifest: so it is no worker here, either.
func TestControlPlaneHere(t *testing.T) {
	m, _ := machinetest.New(t)
	machinetest.Put(t, m, machine.KubeletConf, "x")
	if is, err := workflow.ControlPlaneHere(m); is || err != nil {
		t.Errorf("a worker is a control plane: %t, %v", is, err)
	}
	const controllers = "/etc/kubernetes/manifests/kube-controller-manager.yaml"
	machinetest.Put(t, m, controllers, "x")
	_, err := workflow.ControlPlaneHere(m)
	phasestest.WantError(t, err, "there is "+controllers, finding.ExitRefused)
	machinetest.Put(t, m, machine.APIServerPod, phasestest.APIServerPod("v1.35.4"))
	_, err = workflow.ControlPlaneHere(m)
	phasestest.WantError(t, err, "there is no /etc/kubernetes/admin.conf", finding.ExitRefused)
	machinetest.Put(t, m, machine.AdminConf, "x")
	if is, err := workflow.ControlPlaneHere(m); !is || err != nil {
		t.Errorf("a control plane is none: %t, %v", is, err)
	}
}
