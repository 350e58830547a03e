package upgrade

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/kubelet"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/upgrade/planner"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func TestRestOfOthers(t *testing.T) {
	for rest, want := range map[string]string{
		"--etcd-upgrade=false --yes --patches /p --allow-experimental-upgrades": "--etcd-upgrade=false --patches /p",
		"--feature-gates X=true -v 5":                                           "-v 5",
		"":                                                                      "",
	} {
		if got := strings.Join(restOfOthers(strings.Fields(rest), false), " "); got != want {
			t.Errorf("of %q go along %q, want %q", rest, got, want)
		}
	}
	without := restOfOthers([]string{"--patches", "/p", "--v=5", "--patches=/p", "--skip-phases=addon/coredns"}, true)
	if diff := cmp.Diff([]string{"--v=5", "--skip-phases=addon/coredns"}, without); diff != "" {
		t.Errorf("without patches (-want +got):\n%s", diff)
	}
}

// An add-on that is skipped by its name is somebody else's on every machine.
func TestUpgrade_Check_Skips(t *testing.T) {
	for phase, want := range map[string]finding.ExitCode{"addon/coredns": 0, "addon": finding.ExitUsage} {
		err := (&Upgrade{Remote: fleet.Remote{Via: fleet.ViaSSH}, Rest: []string{"--skip-phases=" + phase}}).Check()
		if known := new(finding.Error); (err != nil) != (want != 0) || errors.As(err, &known) && known.Code != want {
			t.Errorf("%s: %v", phase, err)
		}
	}
}

// One phase of kubeadm's is no upgrade of the machine.
func TestUpgrade_Check_Phase(t *testing.T) {
	err := (&Upgrade{Rest: []string{"phase", "kubelet-config"}}).Check()
	phasestest.WantError(t, err, `read the flags of kubeadm upgrade apply: unexpected argument "phase"`, finding.ExitUsage)
}

// A relative directory would be another one on each machine, and another one than is looked for there.
func TestUpgrade_Check_Patches(t *testing.T) {
	for _, tt := range []struct {
		argument, configured string
		via                  fleet.Via
		want                 finding.ExitCode
	}{
		{argument: "--patches=./p", via: fleet.ViaSSH, want: finding.ExitUsage},
		{configured: "p", via: fleet.ViaPods, want: finding.ExitUsage},
		{argument: "--patches=/p", configured: "/q", via: fleet.ViaSSH},
		{argument: "--patches=p", configured: "q", via: fleet.ViaHand},
		{via: fleet.ViaSSH},
	} {
		u := &Upgrade{
			Remote: fleet.Remote{Via: tt.via}, Rest: strings.Fields(tt.argument),
			ConfigText: upgradeConfiguration + "node: {patches: {directory: '" + tt.configured + "'}}\n",
		}
		err, known := u.Check(), new(finding.Error)
		if (err != nil) != (tt.want != 0) || errors.As(err, &known) && known.Code != tt.want {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

// What another machine has sent is there while kubeadm runs, and gone afterwards, also where kubeadm fails.
func TestUpgrade_SentConfiguration(t *testing.T) {
	m, runner := machinetest.New(t)
	u := &Upgrade{Config: machine.UpgradeConfig, ConfigText: "kind: X\n", Driven: true}
	r, _ := phasestest.Run{Inputs: workflow.Inputs{Role: kubeadm.RoleJoin, Operation: u}}.Must(t, m)
	during := ""
	runner.During = func(string) { during = machinetest.Content(m, machine.UpgradeConfig) }
	for _, fails := range []error{nil, exec.ErrNotFound} {
		runner.Fails["kubeadm upgrade node --config="+machine.UpgradeConfig] = fails
		if fails == nil {
			delete(runner.Fails, "kubeadm upgrade node --config="+machine.UpgradeConfig)
		}
		err := upgradeOf(r).runUpgrade(t.Context(), r.Env)
		left := machinetest.Content(m, machine.UpgradeConfig)
		if during != "kind: X\n" || left != "" || (err != nil) != (fails != nil) {
			t.Errorf("%v; it said %q, and %q is left", err, during, left)
		}
	}
}

func TestShowNode_Programs(t *testing.T) {
	m, runner := machinetest.New(t)
	runner.Answers["systemctl show -p MainPID"] = "0\n"
	runner.Answers["kubelet --version"] = "Kubernetes v1.35.4\n"
	runner.Fails["ccmadm version"] = machine.ErrNotFound
	machinetest.Put(t, m, "/usr/bin/dnf", "")
	machinetest.Put(t, m, machine.StateFile, "apiVersion: ccmadm.dev/v1alpha1\nkind: LocalState\nupgraded: v1.36.3\n")
	r, err := kubelet.ShowNode(t.Context(), m, "/usr/bin/dnf", "/etc/patches")
	if err != nil || r.Kubeadm != "v1.36.3" || r.Ccmadm != "" || r.Packages != "dnf" || r.Upgraded != "v1.36.3" ||
		!slices.Equal(r.Lacks, []string{"/etc/patches"}) {
		t.Errorf("%+v, %v", r, err)
	}
	runner.Fails["kubeadm version"] = exec.ErrDot
	if _, err := kubelet.ShowNode(t.Context(), m); err == nil {
		t.Error("a kubeadm that does not answer is taken for none")
	}
}

// What keeps `ccmadm upgrade node` from a machine is asked of it beforehand; what goes on there is not done yet.
func TestShowNode_WhatKeepsAnUpgrade(t *testing.T) {
	m, runner := machinetest.New(t)
	runner.Answers["systemctl show -p MainPID"] = "0\n"
	runner.Answers["kubelet --version"] = "Kubernetes v1.35.4\n"
	machinetest.Put(t, m, machine.APIServerPod, "")
	machinetest.Put(t, m, machine.StateFile, "apiVersion: ccmadm.dev/v1alpha1\nkind: LocalState\nupgraded: v1.36.3\n"+
		"upgrading: upgrade apply v1.36.3\n")
	r, err := kubelet.ShowNode(t.Context(), m)
	if err != nil || r.Upgraded != "" || r.Upgrading != "upgrade apply v1.36.3" ||
		!strings.Contains(r.NoUpgrade, "there is no "+machine.AdminConf) {
		t.Errorf("%+v, %v", r, err)
	}
}

// In a pod an absolute link of the machine leads elsewhere: such a machine is not upgraded by one.
func TestShowNode_Astray(t *testing.T) {
	m, runner := machinetest.New(t)
	runner.Answers["systemctl show -p MainPID"] = "0\n"
	runner.Answers["kubelet --version"] = "Kubernetes v1.35.4\n"
	machinetest.Put(t, m, "/srv/kubernetes/manifests/kube-apiserver.yaml", "")
	if err := os.MkdirAll(m.Path("/etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/srv/kubernetes", m.Path("/etc/kubernetes")); err != nil {
		t.Fatal(err)
	}
	r, err := kubelet.ShowNode(t.Context(), m)
	if err != nil || !slices.Equal(r.Astray, []string{"/etc/kubernetes", "/etc/kubernetes/manifests"}) {
		t.Fatalf("%+v, %v", r, err)
	}
	cp2 := &other{Node: &fleet.Node{Name: "cp2", ControlPlane: true}, report: r}
	r.Release = "v0.1.0"
	told := cp2.told(version.MustParseSemantic("v1.36.3"))
	if told.Release != r.Release ||
		!strings.Contains(told.Problem, "in a pod: /etc/kubernetes, /etc/kubernetes/manifests") ||
		!strings.Contains(told.Next, "--via ssh") {
		t.Errorf("%+v", told)
	}
}

// An upgrade of another machine is refused, and one here begins once another step has ended.
func TestHoldForUpgrade(t *testing.T) {
	m, _ := phasestest.KubeletOf(t)
	env := kubelet.NewNode(m, kubelet.NodeOptions{}, workflow.Streams{Out: io.Discard, Err: io.Discard}, "test")
	_, err := fleet.HoldForUpgrade(t.Context(), env, kubelet.Whose{Node: "w9"})
	phasestest.WantError(t, err, "upgrade this machine: ", finding.ExitRefused)
	release, err := fleet.HoldForUpgrade(t.Context(), env, kubelet.Whose{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = fleet.HoldForUpgrade(ctx, env, kubelet.Whose{})
	phasestest.WantError(t, err, "wait for the end of another step on this machine", finding.ExitRefused)
	release()
	if release, err = fleet.HoldForUpgrade(t.Context(), env, kubelet.Whose{}); err != nil {
		t.Fatal(err)
	}
	release()
}

// All was done only where no machine is left, and each has done its part.
func TestUpgrader_ExitStatus(t *testing.T) {
	notInTime, failed := &finding.Error{Code: finding.ExitNotInTime, Err: io.EOF}, finding.Errorf("no")
	for _, tt := range []struct {
		name    string
		reached int32
		errs    []error
		want    finding.ExitCode
	}{
		{"the last one is not in time", 3, []error{notInTime}, finding.ExitNotInTime},
		{"others were not reached", 1, []error{notInTime}, finding.ExitError},
		{"another one has failed", 3, []error{notInTime, failed}, finding.ExitError},
		{"another one has failed before", 3, []error{io.EOF, notInTime}, finding.ExitError},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := &upgrader{all: make([]*other, 3)}
			u.reached.Store(tt.reached)
			var list []fleet.FailedNode
			for _, err := range tt.errs {
				list = append(list, fleet.FailedNode{Node: &fleet.Node{Name: "w1"}, Err: err})
			}
			phasestest.WantError(t, u.stopped(list), "node w1: ", tt.want)
		})
	}
}

// Where another control plane stands in the middle of this upgrade, the command that leads it on is named, and what is
// wrong with the cluster keeps nobody from going on there.
func TestUpgrade_HalfWay(t *testing.T) {
	const finish = "on cp2: ccmadm upgrade node"
	target := version.MustParseSemantic("v1.36.3")
	own := journal.Run{Machine: "cp2", Command: "upgrade node v1.36.3", State: journal.CutShort}
	former := journal.Run{Machine: "cp2", Command: "upgrade node v1.35.4", State: journal.CutShort}
	first, done := own, own
	first.Command, done.State = "upgrade apply v1.36.3", journal.Done
	for _, tt := range []struct {
		name string
		runs []journal.Run
		turn bool
		next string
		goes bool
	}{
		{name: "cut short", runs: []journal.Run{former, own}, turn: true, next: finish, goes: true},
		{name: "the first one", runs: []journal.Run{first}, next: "on cp2: ccmadm upgrade apply v1.36.3", goes: true},
		{name: "its turn", runs: []journal.Run{own, done}, turn: true, next: finish},
		{name: "a former version", runs: []journal.Run{former}, next: "ccmadm status"},
		{name: "nothing was begun", next: "ccmadm status"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := &other{Node: &fleet.Node{Name: "cp2", ControlPlane: true}}
			o.askJournal(tt.runs, target, tt.turn)
			if told := o.told(target); told.Next != tt.next || (told.Do != "") != (tt.next != "ccmadm status") {
				t.Errorf("%+v", told)
			}
			env := &workflow.Env{Streams: workflow.Streams{Out: io.Discard, Err: io.Discard}}
			u := &Upgrade{Version: "v1.36.3", target: target, others: []*other{o}}
			facts := &planner.Facts{Troubles: []finding.Finding{finding.KubeletSkew.New("", "nobody leads")}}
			err := u.refuseBlocked(env, &planner.Plan{Findings: facts.Troubles}, facts, false)
			if (err == nil) != tt.goes {
				t.Errorf("%v", err)
			}
		})
	}
	o := &other{Node: &fleet.Node{Name: "cp2"}, finish: "x", failed: finding.Errorf("no").WithHint("look there")}
	if told := o.told(target); told.Next != "look there" || told.Do != "" {
		t.Errorf("%+v", told)
	}
}

// An argument is in place of the configuration's directory, as for kubeadm, and apply has another one than node.
func TestUpgrade_LintPatches(t *testing.T) {
	m, _ := machinetest.New(t)
	machinetest.Put(t, m, "/p/kubeproxydaemonset.yaml", "spec: {}\n")
	machinetest.Put(t, m, "/q/kube-scheduler.yaml", "spec: {}\n")
	machinetest.Put(t, m, "/r/kubeletconfiguration.yaml", "featureGates: {SidecarContainers: true}\n")
	for _, tt := range []struct {
		rest, apply, node, version, minor, want string
	}{
		{rest: "--patches=/p", minor: "1.37"},
		{rest: "--patches=/p", minor: "1.36", want: "A21"},
		{rest: "--patches=/r", minor: "1.37", want: "U5"},
		{rest: "--patches=/r", minor: "1.36"},
		{rest: "--patches=/q", apply: "/p", version: "v1.36.3", minor: "1.36"},
		{apply: "/p", node: "/q", version: "v1.36.3", minor: "1.36", want: "A21"},
		{apply: "/p", node: "/q", minor: "1.36"},
		{node: "/none", minor: "1.36", want: "A21"},
		{minor: "1.36"},
	} {
		u := &Upgrade{
			Version: tt.version, ConfigText: upgradeConfiguration + "apply: {patches: {directory: '" + tt.apply + "'}}\nnode: {patches: {directory: '" +
				tt.node + "'}}\n",
		}
		if tt.rest != "" {
			u.Rest = []string{tt.rest}
		}
		u.target = version.MustParseGeneric(tt.minor)
		found, err := u.lintPatches(m, nil)
		var said strings.Builder
		for _, f := range found {
			said.WriteString(string(f.ID))
		}
		got := said.String()
		if err != nil || got != tt.want {
			t.Errorf("%+v: got %s, %v", tt, got, err)
		}
	}
}

// An argument that no minor has ends the component that kubeadm patches with it, unless it runs with it, or another such one, already.
func TestUpgrade_LintPatchesUnknown(t *testing.T) {
	m, _ := machinetest.New(t)
	machinetest.Put(t, m, "/p/etcd.yaml", "spec: {containers: [{name: etcd, command: [etcd, --vendors=1]}]}\n")
	u := &Upgrade{Rest: []string{"--patches=/p"}, target: version.MustParseGeneric("1.37")}
	for _, tt := range []struct {
		use  planner.Use
		want finding.Severity
	}{
		{planner.Use{}, finding.SeverityError},
		{planner.Use{Component: planner.Etcd, Name: "vendors", Node: "cp2"}, finding.SeverityWarning},
		{planner.Use{Component: planner.Etcd, Name: "vendors-former", Node: "cp2"}, finding.SeverityWarning},
		{planner.Use{Component: planner.Etcd, Name: "data-dir", Node: "cp2"}, finding.SeverityError},
		{planner.Use{Component: planner.Etcd, Name: "experimental-initial-corrupt-check", Node: "cp2"}, finding.SeverityError},
		{planner.Use{Component: planner.Etcd, Name: "vendors", Where: "ConfigMap/kube-system/kubeadm-config"}, finding.SeverityError},
		{planner.Use{Component: planner.APIServer, Name: "vendors", Node: "cp2"}, finding.SeverityError},
	} {
		found, err := u.lintPatches(m, []planner.Use{tt.use})
		if err != nil || len(found) != 1 || found[0].Severity != tt.want {
			t.Errorf("%+v: got %+v, %v, want %s", tt.use, found, err, tt.want)
		}
	}
}
