package phasestest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/manifests/manifeststest"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// Now is the clock of a test's machine.
//
//nolint:gochecknoglobals // a constant that is no Go constant
var Now = machinetest.Now()

// Snapshot returns all files of the machine.
func Snapshot(t *testing.T, m *machine.Machine) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(m.Root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, m.Root)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// InitConfig is a configuration of `kubeadm init` for a machine named cp1.
const InitConfig = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\nlocalAPIEndpoint: {advertiseAddress: " + machinetest.Address + "}\nnodeRegistration: {name: cp1}\n"

// Run is one command line of init or join.
type Run struct {
	Inputs workflow.Inputs
	Config string // the file of --config
	Args   []string
}

// Data builds what the phases are given, and what they print.
func (r Run) Data(t *testing.T, m *machine.Machine) (*workflow.Run, *bytes.Buffer, error) {
	t.Helper()
	if r.Inputs.Role == "" {
		r.Inputs.Role = kubeadm.RoleInit
	}
	if r.Inputs.ReleaseBalancers == nil {
		r.Inputs.ReleaseBalancers = func(context.Context, kubernetes.Interface) error { return nil }
	}
	if r.Config != "" {
		r.Inputs.ConfigFile = filepath.Join(t.TempDir(), "k.yaml")
		if err := os.WriteFile(r.Inputs.ConfigFile, []byte(r.Config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if r.Inputs.Operation == nil {
		r.Inputs.Operation = record.Ordinary{}
		if r.Inputs.Role == kubeadm.RoleInit && !r.Inputs.Existing {
			r.Inputs.Operation = record.Initialization{}
		}
	}
	r.Inputs.Kubeadm = kubeadm.Flags(r.Inputs.Role)
	if err := kubeadm.ParseFlags(r.Inputs.Role, r.Inputs.Kubeadm, r.Args); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	s := workflow.Streams{In: strings.NewReader(""), Out: &out, Err: &out, Getenv: func(string) string { return "" }}
	run, err := workflow.New(t.Context(), m, r.Inputs, s, "test")
	return run, &out, err
}

// Must is data without an error.
func (r Run) Must(t *testing.T, m *machine.Machine) (*workflow.Run, *bytes.Buffer) {
	t.Helper()
	run, out, err := r.Data(t, m)
	if err != nil {
		t.Fatal(err)
	}
	return run, out
}

// Do runs a phase by itself, and returns what it printed.
func (r Run) Do(t *testing.T, m *machine.Machine, p workflow.Phase) (string, error) {
	t.Helper()
	r.Inputs.Single = true
	run, out := r.Must(t, m)
	err := p.Do(t.Context(), run)
	return out.String(), err
}

// JoinConfig is a configuration of `kubeadm join` for a machine named w1.
const JoinConfig = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\nnodeRegistration: {name: w1}\n" +
	"discovery: {bootstrapToken: {token: abcdef.0123456789abcdef, apiServerEndpoint: '127.0.0.1:1', unsafeSkipCAVerification: true}}\n"

// SameMachineWithoutNetwork is the machine of a directory, booted without a cable.
func SameMachineWithoutNetwork(t *testing.T, root string) (*machine.Machine, *machinetest.Commands) {
	t.Helper()
	m, runner := machinetest.New(t)
	runner.Answers["systemctl cat kubelet"] = machinetest.KubeletUnit
	bare := machine.At(root)
	bare.Runner, bare.Now = runner, m.Now
	bare.Interfaces = func() ([][]netip.Addr, error) { return nil, nil }
	return bare, runner
}

// StateAt is a machine.yaml at a stage.
func StateAt(stage state.Stage) string {
	return "apiVersion: ccmadm.dev/v1alpha1\nkind: LocalState\nrole: init\nnodeName: cp1\nstage: " + string(stage) + "\ninitialized: true\n"
}

// WantError compares an error's text and exit code; no text means none.
func WantError(t *testing.T, err error, text string, code finding.ExitCode) {
	t.Helper()
	if text == "" {
		if err != nil {
			t.Errorf("got %v, want none", err)
		}
		return
	}
	var known *finding.Error
	switch {
	case err == nil || !strings.Contains(err.Error(), text):
		t.Errorf("got %v, want %q", err, text)
	case !errors.As(err, &known) || known.Code != code:
		t.Errorf("%v: exit code is not %d", err, code)
	}
}

// Cluster is the control plane that all tests share whose name starts with TestCluster; -short leaves those out.
//
//nolint:gochecknoglobals // one control plane for all tests of a package
var Cluster *manifeststest.ControlPlane

// Main runs the tests of a package beside a control plane of their own, from which no Node is reached. It is the exit status.
func Main(m *testing.M) int {
	dir, err := os.MkdirTemp("", "phasestest-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	withoutNodes, err := manifeststest.WithoutNodes(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return manifeststest.Main(m, &Cluster, "--enable-bootstrap-token-auth=true", withoutNodes)
}
