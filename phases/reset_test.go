package phases

import (
	"bytes"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/bootstrap"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func TestReset(t *testing.T) {
	m, runner := machinetest.New(t)
	machinetest.Put(t, m, machine.CCMManifest, "x")
	machinetest.Put(t, m, machine.CCMKubeconfig, "x")
	machinetest.Put(t, m, machine.CNIConfig, "x")
	machinetest.Put(t, m, machine.KubeletUnit, "x")
	machinetest.Put(t, m, machine.KubeletDropIn, "x")
	machinetest.Put(t, m, machine.CloudConfigDir+"/cloud.conf", "ours")
	machinetest.Put(t, m, machine.CloudConfigDir+"/theirs/ca.pem", "the administrator's")
	machinetest.Put(t, m, machine.CloudConfigDir+"/proxy.env", "the administrator's, too")
	machinetest.Put(t, m, machine.StateFile, phasestest.StateAt(state.StageFinished)+"files: ["+machine.CloudConfigDir+"/cloud.conf]\n")
	const line = "route 10.244.1.0/24 via 192.0.2.2 proto 158 metric 158"
	left := []string{line}
	m.PodNetwork = func() ([]string, func() error, error) {
		return left, func() error { left = nil; return nil }, nil
	}
	reset := func(o workflow.Inputs) string {
		t.Helper()
		var out bytes.Buffer
		r := record.NewBare(m, o, workflow.Streams{Out: &out, Err: &out}, "test")
		if err := bootstrap.Reset(t.Context(), r, []string{"--cri-socket=x"}); err != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}
		return out.String()
	}
	before := phasestest.Snapshot(t, m)
	out := reset(workflow.Inputs{DryRun: true})
	if diff := cmp.Diff(before, phasestest.Snapshot(t, m)); diff != "" || !strings.Contains(out, "[dryrun] would remove "+machine.CCMManifest) {
		t.Errorf("a dry run (-before +after):\n%s\n%s", diff, out)
	}
	if !strings.Contains(out, "[dryrun] would remove "+line) || len(left) != 1 {
		t.Errorf("a dry run: %v is left of the routes\n%s", left, out)
	}
	if out := reset(workflow.Inputs{Force: true}); !strings.Contains(out, line+" removed") || len(left) > 0 {
		t.Errorf("%v is left of the routes\n%s", left, out)
	}
	want := map[string]string{
		machine.CloudConfigDir + "/theirs/ca.pem": "the administrator's",
		machine.CloudConfigDir + "/proxy.env":     "the administrator's, too",
	}
	if diff := cmp.Diff(want, phasestest.Snapshot(t, m)); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	ran := strings.Join(runner.Ran, "\n")
	for _, wanted := range []string{"kubeadm reset --dry-run --cri-socket=x", "kubeadm reset --force --cri-socket=x", "systemctl disable --quiet ccmadm-kubelet.service"} {
		if !strings.Contains(ran, wanted) {
			t.Errorf("%q was not run:\n%s", wanted, ran)
		}
	}
	if strings.Count(ran, "systemctl disable") != 1 {
		t.Errorf("a dry run changed the service manager:\n%s", ran)
	}
	reset(workflow.Inputs{Force: true}) // and again, on a machine with nothing of ours
}

// TestReset_KubeadmsDryRun: a --dry-run behind the -- is for both, and one of ccmadm's is not taken back there.
func TestReset_KubeadmsDryRun(t *testing.T) {
	for _, tt := range []struct {
		in   workflow.Inputs
		args []string
		want string
	}{
		{args: []string{"--dry-run", "--cri-socket=x"}, want: "kubeadm reset --dry-run --cri-socket=x"},
		{in: workflow.Inputs{DryRun: true}, args: []string{"--dry-run=false"}, want: "kubeadm reset --dry-run"},
		{args: []string{"-f", "--dry-run"}, want: "kubeadm reset --force --dry-run"},
	} {
		m, runner := machinetest.New(t)
		machinetest.Put(t, m, machine.CCMManifest, "x")
		before := phasestest.Snapshot(t, m)
		rest, err := bootstrap.ResetFlags(&tt.in, tt.args)
		if err != nil {
			t.Fatal(err)
		}
		r := record.NewBare(m, tt.in, workflow.Streams{Out: io.Discard, Err: io.Discard}, "test")
		if err := bootstrap.Reset(t.Context(), r, rest); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, phasestest.Snapshot(t, m)); diff != "" {
			t.Errorf("%q changed the machine (-before +after):\n%s", tt.args, diff)
		}
		if ran := runner.RanKubeadm(); !slices.Equal(ran, []string{tt.want}) {
			t.Errorf("%q ran %q, want %q", tt.args, ran, tt.want)
		}
	}
}

// Etcd's data that is there again once kubeadm has removed it is said, behind all else.
func TestReset_EtcdBeginsMeanwhile(t *testing.T) {
	m, _ := machinetest.New(t)
	machinetest.Put(t, m, machine.EtcdManifest, phasestest.EtcdIn("/mnt/etcd"))
	machinetest.Put(t, m, "/var/lib/etcd/lost+found", "somebody else's")
	machinetest.Put(t, m, "/mnt/etcd/member/wal", "x")
	machinetest.Put(t, m, machine.CCMManifest, "x")
	r := record.NewBare(m, workflow.Inputs{Force: true}, workflow.Streams{Out: io.Discard, Err: io.Discard}, "test")
	err := bootstrap.Reset(t.Context(), r, nil)
	phasestest.WantError(t, err, "/mnt/etcd/member still exists", finding.ExitError)
	if machinetest.Content(m, machine.CCMManifest) != "" {
		t.Error("the static pod's manifest is left")
	}
}

// TestReset_Unreadable: a file of ours that cannot be read, or a kernel that does not answer, is said behind all else, and leaves no
// credentials.
func TestReset_Unreadable(t *testing.T) {
	m, _ := machinetest.New(t)
	machinetest.Put(t, m, machine.CloudConfigDir+"/token", "secret")
	machinetest.Put(t, m, machine.CCMKubeconfig, "secret")
	machinetest.Put(t, m, machine.StateFile, "apiVersion: ccmadm.dev/v9\nkind: LocalState\n")
	machinetest.Put(t, m, machine.RecordFile, "kind: [\n")
	machinetest.Put(t, m, machine.VIPMembers, "{}")
	netlink := errors.New("netlink: no buffer space")
	m.PodNetwork = func() ([]string, func() error, error) { return nil, nil, netlink }
	reset := func() error {
		r := record.NewBare(m, workflow.Inputs{Force: true}, workflow.Streams{Out: io.Discard, Err: io.Discard}, "test")
		return bootstrap.Reset(t.Context(), r, nil)
	}
	err := reset()
	for _, want := range []string{"machine.yaml: apiVersion", "take the control plane's address from lo: read Record", netlink.Error()} {
		phasestest.WantError(t, err, want, finding.ExitError)
	}
	if left := phasestest.Snapshot(t, m); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	m.PodNetwork = nil
	if err := reset(); err != nil {
		t.Errorf("again: %v", err)
	}
}

// TestReset_AddressStays: an address that cannot be taken from lo is known to the next reset; credentials go at once.
func TestReset_AddressStays(t *testing.T) {
	m, runner := machinetest.New(t)
	machinetest.Put(t, m, machine.CCMKubeconfig, "secret")
	machinetest.Put(t, m, machine.VIPMembers, "{}")
	machinetest.Put(t, m, machine.RecordFile, "apiVersion: ccmadm.dev/v1alpha1\nkind: Record\nconfiguration: {provider: onprem, "+
		"clusterName: ber1, mode: StaticPod, controlPlaneVIP: {address: 192.0.2.10, interface: eth0}}\n")
	reset := func() error {
		r := record.NewBare(m, workflow.Inputs{}, workflow.Streams{Out: io.Discard, Err: io.Discard}, "test")
		return bootstrap.Reset(t.Context(), r, nil)
	}
	const shows, takes = "ip -o address show dev lo to 192.0.2.10/32", "ip address delete 192.0.2.10/32 dev lo"
	runner.Fails[shows] = machine.ErrNotFound
	phasestest.WantError(t, reset(), "take the control plane's address from lo", finding.ExitError)
	if machinetest.Content(m, machine.CCMKubeconfig) != "" || machinetest.Content(m, machine.RecordFile) == "" {
		t.Errorf("left: %v", phasestest.Snapshot(t, m))
	}
	delete(runner.Fails, shows)
	runner.Answers[shows] = "1: lo inet 192.0.2.10/32"
	if err := reset(); err != nil {
		t.Error(err)
	}
	if left := phasestest.Snapshot(t, m); len(left) > 0 || !slices.Contains(runner.Ran, takes) {
		t.Errorf("left: %v, ran %q", left, runner.Ran)
	}
}

func TestReset_NotRoot(t *testing.T) {
	m, runner := machinetest.New(t)
	m.Superuser = false
	err := bootstrap.Reset(t.Context(), record.NewBare(m, workflow.Inputs{}, workflow.Streams{Out: &bytes.Buffer{}}, "test"), nil)
	phasestest.WantError(t, err, "reset: not root", finding.ExitPreflight)
	if len(runner.Ran) > 0 {
		t.Errorf("ran %q", runner.Ran)
	}
}

// TestReset_PackagedUnit: a unit that the package has is disabled if it is enabled, or it would set external mode at the next boot.
func TestReset_PackagedUnit(t *testing.T) {
	const asks, disables = "systemctl is-enabled ccmadm-kubelet.service", "systemctl disable --quiet ccmadm-kubelet.service"
	exit := exec.CommandContext(t.Context(), "false").Run()
	for _, tt := range []struct {
		state    string
		exit     error
		disabled bool
	}{
		{state: "enabled", disabled: true},
		{state: "disabled", exit: exit},
		{state: "static"},
		{exit: machine.ErrNotFound},
	} {
		m, runner := machinetest.New(t)
		runner.Answers[asks] = tt.state + "\n"
		if tt.exit != nil {
			runner.Fails[asks] = tt.exit
		}
		var out bytes.Buffer
		r := record.NewBare(m, workflow.Inputs{Force: true}, workflow.Streams{Out: &out, Err: &out}, "test")
		if err := bootstrap.Reset(t.Context(), r, nil); err != nil {
			t.Errorf("%q: %v\n%s", tt.state, err, out.String())
		}
		said := strings.Contains(out.String(), "ccmadm-kubelet.service disabled")
		if ran := slices.Contains(runner.Ran, disables); ran != tt.disabled || said != tt.disabled {
			t.Errorf("%q: disabled %t, said %t, want %t: %q", tt.state, ran, said, tt.disabled, runner.Ran)
		}
	}
}
