package phases

import (
	"bytes"
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
)

// now is the clock of a test's machine.
var now = machinetest.Now()

// snapshot returns all files of the machine.
func snapshot(t *testing.T, m *machine.Machine) map[string]string {
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

const initConfig = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\nlocalAPIEndpoint: {advertiseAddress: " + machinetest.Address + "}\nnodeRegistration: {name: cp1}\n"

// run is one command line of init or join.
type run struct {
	options Options
	config  string // the file of --config
	args    []string
}

// data builds what the phases are given, and what they print.
func (r run) data(t *testing.T, m *machine.Machine) (*Data, *bytes.Buffer, error) {
	t.Helper()
	if r.options.Role == "" {
		r.options.Role = kubeadm.RoleInit
	}
	if r.options.ReleaseBalancers == nil {
		r.options.ReleaseBalancers = func(context.Context, kubernetes.Interface) error { return nil }
	}
	if r.config != "" {
		r.options.ConfigFile = filepath.Join(t.TempDir(), "k.yaml")
		if err := os.WriteFile(r.options.ConfigFile, []byte(r.config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if r.options.Operation == nil {
		r.options.Operation = Ordinary{}
		if r.options.Role == kubeadm.RoleInit && !r.options.Living {
			r.options.Operation = Initialization{}
		}
	}
	r.options.Kubeadm = kubeadm.Flags(r.options.Role)
	if err := kubeadm.ParseFlags(r.options.Role, r.options.Kubeadm, r.args); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	s := Streams{In: strings.NewReader(""), Out: &out, Err: &out, Env: func(string) string { return "" }}
	d, err := New(t.Context(), m, r.options, s, "test")
	return d, &out, err
}

// must is data without an error.
func (r run) must(t *testing.T, m *machine.Machine) (*Data, *bytes.Buffer) {
	t.Helper()
	d, out, err := r.data(t, m)
	if err != nil {
		t.Fatal(err)
	}
	return d, out
}

// do runs a phase by itself, and returns what it printed.
func (r run) do(t *testing.T, m *machine.Machine, p Phase) (string, error) {
	t.Helper()
	r.options.Single = true
	d, out := r.must(t, m)
	err := p.run(t.Context(), d)
	return out.String(), err
}

const joinConfig = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\nnodeRegistration: {name: w1}\n" +
	"discovery: {bootstrapToken: {token: abcdef.0123456789abcdef, apiServerEndpoint: '127.0.0.1:1', unsafeSkipCAVerification: true}}\n"

// sameMachineWithoutNetwork is the machine of a directory, booted without a cable.
func sameMachineWithoutNetwork(t *testing.T, root string) (*machine.Machine, *machinetest.Commands) {
	t.Helper()
	m, runner := machinetest.New(t)
	runner.Answers["systemctl cat kubelet"] = machinetest.KubeletUnit
	bare := machine.At(root)
	bare.Runner, bare.Now = runner, m.Now
	bare.Interfaces = func() ([][]netip.Addr, error) { return nil, nil }
	return bare, runner
}
