package upgrade

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/existingtest"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/upgrade/planner"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// An upgrade that was cut short behind any phase is completed by the same command, with kubeadm's half done once where
// it had come to its end. Then nothing is half done any more: a third run is none.
func TestCluster_Upgrade_CutShortBehindEachPhase(t *testing.T) {
	apply := Upgrade{Version: "v1.36.3"}
	for n, p := range upgradePhases() {
		t.Run(p.Name, func(t *testing.T) {
			u := newUpgradable(t)
			u.kubelet(t, nil)
			u.kubeadm(t, "cp1")
			r, out, list := u.begun(t, apply)
			for _, p := range list[:n+1] {
				if err := p.Do(t.Context(), r); err != nil {
					t.Fatalf("%s: %v\n%s", p.Name, err, out)
				}
			}
			leases := u.client.CoordinationV1().Leases("kube-system") // as if its time were over
			if err := leases.Delete(t.Context(), v1alpha1.RunLeaseName, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			if out, err := u.do(t, apply); err != nil || u.managerImage(t) != u.images["1.36"] || u.ran() != 1 {
				t.Errorf("the manager is %s, kubeadm ran %d times: %v\n%s", u.managerImage(t), u.ran(), err, out)
			}
			rec, err := workflow.ReadRecord(t.Context(), u.client)
			if err != nil || rec.KubernetesVersion != "v1.36.3" {
				t.Errorf("the record says %+v, %v", rec, err)
			}
			flags := machinetest.Content(u.m, machine.KubeadmFlags)
			if flags != "KUBELET_KUBEADM_ARGS=\"--cloud-provider=external\"\n" {
				t.Errorf("the kubelet's flags are %s", flags)
			}
			before, text := phasestest.JournalOf(t)
			if phasestest.Newest(before).State != journal.Done {
				t.Errorf("the journal says\n%s", text)
			}
			if out, err := u.do(t, apply); err != nil {
				t.Errorf("once more: %v\n%s", err, out)
			}
			if after, text := phasestest.JournalOf(t); len(after) != len(before) {
				t.Errorf("once more is in the journal:\n%s", text)
			}
		})
	}
}

// Behind an API server that was gone, kubeadm's Job would wait in vain for a scheduler that has not come back yet.
func TestCluster_Upgrade_CutShortWaitsForTheScheduler(t *testing.T) {
	u := newUpgradable(t)
	u.kubelet(t, nil)
	u.kubeadm(t, "cp1")
	leases := u.client.CoordinationV1().Leases("kube-system")
	lease := phasestest.Made(t, leases, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: schedulerLease},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("cp1"), RenewTime: new(metav1.NowMicro())},
	})
	apply := Upgrade{Version: "v1.36.3"}
	r, _, _ := u.begun(t, apply)
	if err := upgradeOf(r).noteUpgrading(r.Env); err != nil {
		t.Fatal(err)
	}
	var back atomic.Bool
	renewal := time.AfterFunc(3*time.Second, func() {
		lease.Spec.RenewTime = new(metav1.NowMicro())
		back.Store(true)
		if _, err := leases.Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
			t.Error(err)
		}
	})
	defer renewal.Stop()
	upgrades := u.runner.During
	u.runner.During = func(line string) {
		if strings.HasPrefix(line, "kubeadm upgrade apply") && !back.Load() {
			t.Error("kubeadm runs while nobody schedules its Job")
		}
		upgrades(line)
	}
	if out, err := u.do(t, apply); err != nil || u.ran() != 1 {
		t.Errorf("kubeadm ran %d times: %v\n%s", u.ran(), err, out)
	}
}

// An upgrade that was interrupted between the API server and kubeadm's configuration is resumed, also where another run has changed the
// record while the one before looked.
func TestCluster_Upgrade_CutShortAndRefused(t *testing.T) {
	u := newUpgradable(t)
	u.kubelet(t, nil)
	u.kubeadm(t, "cp1")
	if _, err := journal.Open(t.Context(), u.client, journal.Run{Command: "upgrade apply v1.36.3", Machine: "cp1"}); err != nil {
		t.Fatal(err)
	}
	phasestest.Abandon(t, u.client)
	machinetest.Put(t, u.m, machine.APIServerPod, phasestest.APIServerPod("v1.36.3"))
	u.image(t, "cp1", "v1.36.3")
	upgrades := u.runner.During
	u.runner.During = func(line string) {
		if strings.HasPrefix(line, "kubeadm config images list") {
			u.runner.During = upgrades
			file := phasestest.CloudDocument + "controllerManager: {extraArgs: [--v=4]}\n"
			if out, _, err := existingtest.ApplyRun(t, u.m, file, workflow.Inputs{Command: "apply"}); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		}
	}
	_, err := u.do(t, Upgrade{Version: "v1.36.3"})
	phasestest.WantError(t, err, "the cluster's record changed after this run read it", finding.ExitRefused)
	if out, err := u.do(t, Upgrade{Version: "v1.36.3"}); err != nil || u.ran() != 1 {
		t.Errorf("kubeadm ran %d times: %v\n%s", u.ran(), err, out)
	}
	if runs, text := phasestest.JournalOf(t); journal.Unfinished(runs) != nil || phasestest.Newest(runs).State != journal.Done {
		t.Errorf("the journal says\n%s", text)
	}
}

// What was told to leave something out is no upgrade, and neither is one that was killed behind kubeadm's last visible
// word: the same command goes on, no other one does, and the plan says so.
func TestCluster_Upgrade_APartIsNoUpgrade(t *testing.T) {
	u := newUpgradable(t)
	u.kubelet(t, nil)
	u.kubeadm(t, "cp1")
	apply := Upgrade{Version: "v1.36.3"}
	out, err := u.do(t, Upgrade{Version: "v1.36.3", Rest: []string{"--skip-phases=addon"}})
	if err != nil || !strings.Contains(out, "finish the upgrade that was interrupted") {
		t.Fatalf("%v; what is left is not said:\n%s", err, out)
	}
	_, err = u.do(t, Upgrade{})
	phasestest.WantError(t, err, "`ccmadm upgrade apply v1.36.3` was started on this machine", finding.ExitPreflight)
	if out, err := u.do(t, apply); err != nil || u.ran() != 2 || strings.Contains(out, "finish the upgrade") {
		t.Errorf("kubeadm ran %d times: %v\n%s", u.ran(), err, out)
	}
	if out, err := u.do(t, apply); err != nil || u.ran() != 2 {
		t.Errorf("once more, kubeadm ran %d times: %v\n%s", u.ran(), err, out)
	}
}

// Whoever keeps an add-on for himself has upgraded the machine: it is said which was skipped, and nothing is half done.
func TestCluster_Upgrade_AnAddonThatIsSkippedIsNoHalf(t *testing.T) {
	const text = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: UpgradeConfiguration\napply: {skipPhases: [addon/coredns]}\n"
	for name, told := range map[string]Upgrade{
		"by a flag": {Version: "v1.36.3", Rest: []string{"--skip-phases", "addon/coredns"}},
		"by a file": {Version: "v1.36.3", Config: "/root/upgrade.yaml", ConfigText: text},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpgradable(t)
			u.kubelet(t, nil)
			u.kubeadm(t, "cp1")
			out, err := u.do(t, told)
			if err != nil || strings.Contains(out, "finish the upgrade") || !strings.Contains(out, "to skip addon/coredns") {
				t.Fatalf("%v\n%s", err, out)
			}
			state := machinetest.Content(u.m, machine.StateFile)
			if !strings.Contains(state, "upgradeSkipped:\n- addon/coredns\n") {
				t.Errorf("%s has\n%s", machine.StateFile, state)
			}
			out, err = u.do(t, Upgrade{Version: "v1.36.3"})
			if err != nil || u.ran() != 1 || !strings.Contains(out, "v1.36.3, told to skip addon/coredns\n") {
				t.Errorf("once more, kubeadm ran %d times: %v\n%s", u.ran(), err, out)
			}
		})
	}
}

// Where another control plane has been the first since, this one follows, whatever was cut short here.
func TestRefuseOtherHalf(t *testing.T) {
	for own, refused := range map[string]bool{"v1.36.3": true, "v1.35.4": false} {
		m, _ := machinetest.New(t)
		machinetest.Put(t, m, machine.APIServerPod, phasestest.APIServerPod(own))
		r, _ := phasestest.Run{}.Must(t, m)
		target := version.MustParseSemantic("v1.36.3")
		r.Operation = &Upgrade{Version: "v1.36.3", target: target}
		if err := upgradeOf(r).noteUpgrading(r.Env); err != nil {
			t.Fatal(err)
		}
		r.Operation = &Upgrade{target: target}
		if err := upgradeOf(r).refuseOtherHalf(r.Env); refused != (err != nil) {
			t.Errorf("own API server %s: %v", own, err)
		}
	}
}

// By hand, too: the API server and the configuration are of the version before kubeadm's last word.
func TestCluster_Upgrade_APartByHandIsNoUpgrade(t *testing.T) {
	u := newUpgradable(t)
	u.kubelet(t, nil)
	u.kubeadm(t, "cp1")
	u.runner.During("kubeadm upgrade apply")
	manifest := strings.Replace(machine.APIServerPod, "apiserver", "scheduler", 1)
	machinetest.Put(t, u.m, manifest, strings.ReplaceAll(phasestest.APIServerPod("v1.35.4"), "apiserver", "scheduler"))
	r, _ := phasestest.Run{Inputs: workflow.Inputs{Existing: true, Operation: &Upgrade{Version: "v1.36.3"}}}.Must(t, u.m)
	facts, plan, err := upgradeOf(r).planned(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	facts.Nodes = slices.DeleteFunc(facts.Nodes, func(n planner.Node) bool { return !n.ControlPlane })
	older := planner.Node{Name: "cp2", ControlPlane: true, APIServer: "v1.35.4"}
	for _, tt := range []struct {
		scheduler, proxy string
		nodes            []planner.Node
		want             bool
	}{
		{scheduler: "v1.35.4", want: true},
		{scheduler: "v1.36.3"},
		{scheduler: "v1.36.3", proxy: "v1.35.4", want: true},
		{scheduler: "v1.36.3", proxy: "v1.35.4", nodes: []planner.Node{older}}, // whose upgrade brings kube-proxy
		{scheduler: "v1.36.3", proxy: "mine"},
		{scheduler: "v1.36.3", proxy: "v1.36.3"},
	} {
		machinetest.Put(t, u.m, manifest, strings.ReplaceAll(phasestest.APIServerPod(tt.scheduler), "apiserver", "scheduler"))
		given := *facts
		given.Proxy, given.Nodes = tt.proxy, append(tt.nodes, facts.Nodes...)
		upgradeOf(r).target = version.MustParseSemantic("v1.36.3")
		if err := upgradeOf(r).decide(t.Context(), r.Env, &given, plan, false); err != nil || upgradeOf(r).kubeadm != tt.want {
			t.Errorf("%+v: kubeadm's half is run: %t, %v", tt, upgradeOf(r).kubeadm, err)
		}
	}
}
