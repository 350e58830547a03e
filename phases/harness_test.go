package phases

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/phases/kubeadm"
	"github.com/ccmadm/ccmadm/phases/machine"
)

// testAddress is the only one of a test's machine.
const testAddress = "198.18.0.11"

// now is the clock of a test's machine.
var now = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// commands stands in for the programs of a machine: it answers by the beginning of a command line, and remembers all
// that were run.
type commands struct {
	answers map[string]string
	fails   map[string]error
	ran     []string
	// during is called while a command runs: what kubeadm would do to the machine.
	during func(line string)
}

func (c *commands) Run(_ context.Context, cmd machine.Command) error {
	line := strings.Join(append([]string{cmd.Name}, cmd.Args...), " ")
	c.ran = append(c.ran, line)
	if c.during != nil {
		c.during(line)
	}
	for prefix, answer := range c.answers {
		if strings.HasPrefix(line, prefix) && cmd.Out != nil {
			fmt.Fprint(cmd.Out, answer)
		}
	}
	for prefix, err := range c.fails {
		if strings.HasPrefix(line, prefix) {
			return err
		}
	}
	return nil
}

// ranKubeadm returns the kubeadm commands that would change a machine.
func (c *commands) ranKubeadm() []string {
	var list []string
	for _, line := range c.ran {
		if strings.HasPrefix(line, "kubeadm init") || strings.HasPrefix(line, "kubeadm join") || strings.HasPrefix(line, "kubeadm reset") {
			list = append(list, line)
		}
	}
	return list
}

const kubeletUnit = "[Service]\nEnvironment=\"KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml\"\nExecStart=/usr/bin/kubelet $KUBELET_CONFIG_ARGS\n"

// newMachine is an empty machine with kubeadm 1.36.3 and one address.
func newMachine(t *testing.T) (*machine.Machine, *commands) {
	t.Helper()
	runner := &commands{
		answers: map[string]string{"kubeadm version": "v1.36.3\n", "systemctl cat kubelet": kubeletUnit},
		fails:   map[string]error{},
	}
	m := machine.At(t.TempDir())
	m.Runner, m.Now = runner, func() time.Time { return now }
	m.Interfaces = func() ([][]netip.Addr, error) { return [][]netip.Addr{{netip.MustParseAddr(testAddress)}}, nil }
	m.DefaultAddress = func() (netip.Addr, error) { return netip.MustParseAddr(testAddress), nil }
	return m, runner
}

// put writes a file of the machine.
func put(t *testing.T, m *machine.Machine, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(m.Path(path)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(m.Path(path), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// content returns a file of the machine, empty if there is none.
func content(m *machine.Machine, path string) string {
	data, err := m.Read(path)
	if err != nil {
		return ""
	}
	return string(data)
}

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

const initConfig = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\nlocalAPIEndpoint: {advertiseAddress: " + testAddress + "}\nnodeRegistration: {name: cp1}\n"

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
	if r.config != "" {
		r.options.ConfigFile = filepath.Join(t.TempDir(), "k.yaml")
		if err := os.WriteFile(r.options.ConfigFile, []byte(r.config), 0o600); err != nil {
			t.Fatal(err)
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
func sameMachineWithoutNetwork(t *testing.T, root string) (*machine.Machine, *commands) {
	t.Helper()
	m, runner := newMachine(t)
	runner.answers["systemctl cat kubelet"] = kubeletUnit
	bare := machine.At(root)
	bare.Runner, bare.Now = runner, m.Now
	bare.Interfaces = func() ([][]netip.Addr, error) { return nil, nil }
	return bare, runner
}
