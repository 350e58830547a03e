package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/kubeadm/identity"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/existingtest"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/phasestest"
)

// upgradeConfiguration is kubeadm's, which goes along.
const upgradeConfiguration = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: UpgradeConfiguration\n"

// driven is an upgradable cluster with a second control plane and two workers, which answer over SSH.
type driven struct {
	*upgradable

	address map[string]string
	ca      []byte // of the cluster
	fails   string // the machine whose upgrade does not come through
}

func newDriven(t *testing.T) *driven {
	t.Helper()
	v := &driven{upgradable: newUpgradable(t), ca: phasestest.Cluster.Config.CAData}
	v.address = map[string]string{"cp2": "198.18.0.12", "w1": "198.18.0.21", "w2": "198.18.0.22"}
	v.node(t, "cp2", true)
	v.node(t, "w2", false)
	nodes := v.client.CoreV1().Nodes()
	for name, address := range v.address {
		node, err := nodes.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
		if _, err := nodes.UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		v.told(name, "v1.36.3", `"upgraded":""`)
	}
	v.kubelet(t, nil)
	v.kubeadm(t, "cp1")
	here := v.runner.During
	v.runner.During = func(line string) {
		here(line)
		if v.isUpgrade(line, "cp2") {
			v.image(t, "cp2", "v1.36.3")
		}
		for _, worker := range []string{"w1", "w2"} {
			if v.isUpgrade(line, worker) && v.fails != worker {
				v.told(worker, "v1.36.3", `"upgraded":"v1.36.3"`)
			}
		}
	}
	return v
}

func (v *driven) ssh(node string) string {
	return "ssh -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 -o ServerAliveCountMax=3 " +
		v.address[node] + " -- ccmadm "
}

func (v *driven) isUpgrade(line, node string) bool {
	return strings.HasPrefix(line, v.ssh(node)+"upgrade node")
}

// told is what a machine says of itself from now on.
func (v *driven) told(node, kubeadm, more string) {
	v.runner.Answers[v.ssh(node)+"node show --output=json"] = fmt.Sprintf(
		`{"node":%q,"caCertHashes":[%q],"version":"v1.35.4","kubeadm":%q,"ccmadm":"test","packages":"apt-get",%s}`,
		node, identity.Pins(v.ca)[0], kubeadm, more)
}

// upgraded are the machines that were upgraded from here since the last question, in their order.
func (v *driven) upgraded() []string {
	var list []string
	for _, line := range v.runner.Ran {
		for node := range v.address {
			if v.isUpgrade(line, node) {
				list = append(list, node)
			}
		}
	}
	v.runner.Ran = nil
	return list
}

func (v *driven) from(t *testing.T, r fleet.Remote) (string, error) {
	t.Helper()
	r.Parallel = 1
	machinetest.Put(t, v.m, "/p/kube-apiserver.yaml", "spec: {}\n") // kubeadm refuses a directory that is not there
	rest := []string{"--etcd-upgrade=false", "--patches=/p", "--allow-x"}
	return v.do(t, Upgrade{Version: "v1.36.3", ConfigText: upgradeConfiguration, Rest: rest, Remote: r})
}

// The other control plane comes first, then workers; at the first that does not come through it stops, and the same
// command goes on there.
func TestCluster_UpgradeVia_GoesOn(t *testing.T) {
	v := newDriven(t)
	v.fails = "w1"
	v.runner.Answers[v.ssh("cp2")+"upgrade node"] = "[kubeadm] hello\nwithout an end"
	v.runner.Fails[v.ssh("w1")+"upgrade node"] = errors.New("exit status 1")
	out, err := v.from(t, fleet.Remote{Via: fleet.ViaSSH})
	phasestest.WantError(t, err, "node w1: run ssh ", finding.ExitError)
	var known *finding.Error
	if errors.As(err, &known); !strings.Contains(known.Hint, "run the same command again: it resumes here") ||
		strings.Contains(err.Error(), encodeConfig(upgradeConfiguration)) {
		t.Errorf("it says %v, hint %s", err, known.Hint)
	}
	line := v.ssh("cp2") + "upgrade node --driven --node=cp2 --ca-cert-hash=" +
		strings.Join(identity.Pins(phasestest.Cluster.Config.CAData), ",") +
		" --config-data=" + encodeConfig(upgradeConfiguration) + " -- --etcd-upgrade=false --patches=/p"
	if !slices.Contains(v.runner.Ran, line) || !strings.Contains(out, "cp2: without an end") {
		t.Errorf("it ran %q, not %s\n%s", v.runner.Ran, line, out)
	}
	if got := v.upgraded(); !slices.Equal(got, []string{"cp2", "w1"}) {
		t.Errorf("upgraded were %v\n%s", got, out)
	}
	runs, text := phasestest.JournalOf(t)
	last := runs[len(runs)-1]
	if len(runs) != 2 || last.Command != "upgrade workers v1.36.3" || last.State != journal.Failed ||
		last.Steps[0].Node != "w1" {
		t.Errorf("the journal says\n%s", text)
	}
	v.fails = ""
	delete(v.runner.Fails, v.ssh("w1")+"upgrade node")
	if out, err := v.from(t, fleet.Remote{Via: fleet.ViaSSH}); err != nil || strings.Contains(out, "v1.36.3; install kubelet") {
		t.Errorf("%v\n%s", err, out)
	}
	if got := v.upgraded(); !slices.Equal(got, []string{"cp2", "w1", "w2"}) {
		t.Errorf("upgraded were %v", got)
	}
	out, err = v.from(t, fleet.Remote{Via: fleet.ViaSSH})
	if err != nil || !strings.Contains(out, "w1: nothing is left to be done") {
		t.Errorf("once more: %v\n%s", err, out)
	}
	if got := v.upgraded(); !slices.Equal(got, []string{"cp2"}) {
		t.Errorf("upgraded once more were %v", got)
	}
	if again, text := phasestest.JournalOf(t); len(again) != 4 { // the manager's turn came with cp2, where nobody runs
		t.Errorf("the journal says\n%s", text)
	}
	for _, name := range []string{"cp1", "cp2"} {
		node, err := v.client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || node.Annotations[v1alpha1.ReleaseAnnotation] != "test" {
			t.Errorf("%s: %v, %v", name, node.Annotations, err)
		}
	}
}

// What a machine lacks is found before anything begins, and so is what was misspelled.
func TestCluster_UpgradeVia_Refused(t *testing.T) {
	v := newDriven(t)
	before := v.configuration(t)
	for _, tt := range []struct {
		name  string
		r     fleet.Remote
		want  string
		code  finding.ExitCode
		given func()
	}{
		{name: "no way", r: fleet.Remote{Via: "pod"}, want: `read --via: "pod" is none of`, code: finding.ExitUsage},
		{name: "no Node", r: fleet.Remote{Via: fleet.ViaSSH, Skip: []string{"w9"}}, want: "no Node/w9", code: finding.ExitUsage},
		{name: "here", r: fleet.Remote{Via: fleet.ViaSSH, Skip: []string{"cp1"}}, want: "is this machine", code: finding.ExitUsage},
		{
			name: "no kubeadm of the version", r: fleet.Remote{Via: fleet.ViaSSH}, code: finding.ExitPreflight,
			want:  "U13 Node/w1: its kubeadm is v1.35.4, not v1.36.3",
			given: func() { v.told("w1", "v1.35.4", `"upgraded":""`) },
		},
		{
			name: "a first upgrade cut short", r: fleet.Remote{Via: fleet.ViaSSH}, code: finding.ExitPreflight,
			want:  "U13 Node/w1: upgrade apply v1.36.3 was started there and is not finished",
			given: func() { v.told("w1", "v1.36.3", `"upgrading":"upgrade apply v1.36.3"`) },
		},
		{
			name: "a control plane without patches", r: fleet.Remote{Via: fleet.ViaSSH}, code: finding.ExitPreflight,
			want:  "U13 Node/cp2: there is no /p, where kubeadm is to look for patches",
			given: func() { v.told("w1", "v1.36.3", `"lacks":["/p"]`); v.told("cp2", "v1.36.3", `"lacks":["/p"]`) },
		},
		{
			name: "no credentials", r: fleet.Remote{Via: fleet.ViaSSH}, code: finding.ExitPreflight,
			want:  "U13 Node/w1: there is no x",
			given: func() { v.told("w1", "v1.36.3", `"noUpgrade":"there is no x"`) },
		},
		{
			name: "a control plane that is none", r: fleet.Remote{Via: fleet.ViaSSH}, code: finding.ExitPreflight,
			want:  "U13 Node/cp2: its Node has the label of a control plane, and there is no /etc/kubernetes/manifests/",
			given: func() { v.told("w1", "v1.36.3", `"worker":true`); v.told("cp2", "v1.36.3", `"worker":true`) },
		},
		{
			name: "another machine", r: fleet.Remote{Via: fleet.ViaSSH}, code: finding.ExitPreflight,
			want:  "U13 Node/w1: ask who answers at 198.18.0.21: it is the machine of Node/w3, and not of Node/w1",
			given: func() { v.told("w1", "v1.36.3", `"node":"w3"`) },
		},
		{
			name: "no way there", r: fleet.Remote{Via: fleet.ViaSSH}, want: "U13 Node/cp2: run ssh ", code: finding.ExitPreflight,
			given: func() { v.runner.Fails[v.ssh("cp2")+"node show"] = errors.New("exit status 255") },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.given != nil {
				tt.given()
			}
			_, err := v.from(t, tt.r)
			phasestest.WantError(t, err, tt.want, tt.code)
			if got := v.upgraded(); len(got) > 0 || v.ran() > 0 || v.configuration(t) != before {
				t.Errorf("something was changed, %v were upgraded", got)
			}
			if runs, _ := phasestest.JournalOf(t); len(runs) > 0 {
				t.Error("it is in the journal")
			}
		})
	}
	delete(v.runner.Fails, v.ssh("cp2")+"node show")
	v.told("cp2", "v1.36.3", `"upgraded":""`)
	v.told("w2", "v1.36.3", `"lacks":["/p"]`)
	if out, err := v.from(t, fleet.Remote{Via: fleet.ViaSSH, Skip: []string{"w1"}}); err != nil {
		t.Errorf("without it: %v\n%s", err, out)
	}
	if i := slices.IndexFunc(v.runner.Ran, func(line string) bool { return v.isUpgrade(line, "w2") }); i < 0 ||
		!strings.HasSuffix(v.runner.Ran[i], " -- --etcd-upgrade=false") {
		t.Errorf("a worker without patches is given %q", v.runner.Ran)
	}
	if got := v.upgraded(); !slices.Equal(got, []string{"cp2", "w2"}) {
		t.Errorf("upgraded were %v", got)
	}
}

// A dry run makes no pod, and a kubelet that shows no log is named.
func TestCluster_UpgradeVia_Pods(t *testing.T) {
	v := newDriven(t)
	pods := fleet.Remote{Via: fleet.ViaPods, Image: "x", Parallel: 1, Skip: []string{"cp2", "w2"}, LogTimeout: time.Second}
	r, out, list := v.begun(t, Upgrade{Version: "v1.36.3", Remote: pods})
	r.DryRun, r.Machine = true, r.Machine.DryRun(r.Out, func(b []byte) []byte { return b })
	err := r.Do(t.Context(), list)
	if err != nil || !strings.Contains(out.String(), "run on w1: ccmadm upgrade node") {
		t.Errorf("%v\n%s", err, out)
	}
	w1 := &fleet.Node{Name: "w1"}
	asks := fleet.PodForNode(fleet.ShowPrefix, "w1") + "-"
	ran := existingtest.PlayPodOf(t, v.client, fleet.ShowPrefix, w1, corev1.PodStatus{Phase: corev1.PodSucceeded})
	_, err = v.do(t, Upgrade{Version: "v1.36.3", Remote: pods})
	if args := <-ran; args != "node show --output=json --root=/host" {
		t.Errorf("it ran %q", args)
	}
	phasestest.WantError(t, err, "U13 Node/w1: read the log of Pod/kube-system/"+asks, finding.ExitPreflight)
	// One that a killed run has left at work comes to its end first.
	left := fleet.StepPod(w1, fleet.StepPrefix, "x", nil)
	inCluster := v.client.CoreV1().Pods("kube-system")
	if _, err := inCluster.Create(t.Context(), left, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // no kubelet would let it go
		now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
		if err := inCluster.Delete(context.WithoutCancel(t.Context()), left.Name, now); err != nil {
			t.Error(err)
		}
	})
	_, err = v.do(t, Upgrade{Version: "v1.36.3", Remote: pods})
	phasestest.WantError(t, err, "U13 Node/w1: Pod/kube-system/"+left.Name+" is still running on Node/w1", finding.ExitPreflight)
	left.Status.Phase = corev1.PodFailed
	if _, err := inCluster.UpdateStatus(t.Context(), left, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := fleet.RefuseAtWork(t.Context(), v.client, w1); err != nil {
		t.Errorf("it has ended: %v", err)
	}
	if v.ran() > 0 {
		t.Error("it was upgraded all the same")
	}
}

// Where two Nodes have one address, nobody knows which machine SSH would upgrade. Once one of them is skipped, the
// other has to answer.
func TestCluster_UpgradeVia_OneAddressOfTwo(t *testing.T) {
	v := newDriven(t)
	node, err := v.client.CoreV1().Nodes().Get(t.Context(), "w2", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Status.Addresses[0].Address = v.address["w1"]
	if _, err := v.client.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	out, err := v.from(t, fleet.Remote{Via: fleet.ViaSSH})
	phasestest.WantError(t, err, "U13 Node/w1: its address 198.18.0.21 is also that of Node/w2", finding.ExitPreflight)
	if got := v.upgraded(); len(got) > 0 || v.ran() > 0 ||
		!strings.Contains(out, "where it is not that of Node/w2: --skip w2") {
		t.Errorf("%v were upgraded\n%s", got, out)
	}
	out, err = v.from(t, fleet.Remote{Via: fleet.ViaSSH, Skip: []string{"w2"}})
	if got := v.upgraded(); err != nil || !slices.Equal(got, []string{"cp2", "w1"}) {
		t.Errorf("without the other, %v were upgraded: %v\n%s", got, err, out)
	}
}
