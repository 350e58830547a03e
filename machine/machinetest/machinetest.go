// Package machinetest makes machines of temporary directories, on which programs are played and files are real.
package machinetest

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/pkiutil"

	"github.com/ccmadm/ccmadm/machine"
)

// Address is the only one of a test's machine.
const Address = "198.18.0.11"

// Now is the clock of a test's machine.
func Now() time.Time { return time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC) }

// Commands stands in for the programs of a machine: it answers by the beginning of a command line, and remembers all
// that were run.
type Commands struct {
	Answers map[string]string
	Fails   map[string]error
	Ran     []string

	mu sync.Mutex // Ran
	// During is called while a command runs: what kubeadm would do to the machine.
	During func(line string)
}

// Run remembers the command, and answers for it.
func (c *Commands) Run(_ context.Context, cmd machine.Command) error {
	line := strings.Join(append([]string{cmd.Name}, cmd.Args...), " ")
	c.mu.Lock()
	c.Ran = append(c.Ran, line)
	c.mu.Unlock()
	if c.During != nil {
		c.During(line)
	}
	for prefix, answer := range c.Answers {
		if strings.HasPrefix(line, prefix) && cmd.Out != nil {
			fmt.Fprint(cmd.Out, answer)
		}
	}
	for prefix, err := range c.Fails {
		if strings.HasPrefix(line, prefix) {
			return err
		}
	}
	return nil
}

// RanKubeadm returns the kubeadm commands that would change a machine.
func (c *Commands) RanKubeadm() []string {
	var list []string
	for _, line := range c.Ran {
		for _, changes := range []string{"kubeadm init", "kubeadm join", "kubeadm reset"} {
			if strings.HasPrefix(line, changes) {
				list = append(list, line)
			}
		}
	}
	return list
}

// KubeletUnit is what systemd says of the kubelet.
const KubeletUnit = "[Service]\nEnvironment=\"KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml\"\n" +
	"ExecStart=/usr/bin/kubelet $KUBELET_CONFIG_ARGS\n"

// New is an empty machine with kubeadm 1.36.3 and one address.
func New(t *testing.T) (*machine.Machine, *Commands) {
	t.Helper()
	runner := &Commands{
		Answers: map[string]string{"kubeadm version": "v1.36.3\n", "systemctl cat kubelet": KubeletUnit, "crictl images --output json": `{"images": []}`},
		Fails:   map[string]error{},
	}
	m := machine.At(t.TempDir())
	m.Runner, m.Now = runner, Now
	m.Interfaces = func() ([][]netip.Addr, error) { return [][]netip.Addr{{netip.MustParseAddr(Address)}}, nil }
	m.DefaultAddress = func() (netip.Addr, error) { return netip.MustParseAddr(Address), nil }
	return m, runner
}

// Put writes a file of the machine.
func Put(t *testing.T, m *machine.Machine, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(m.Path(path)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(m.Path(path), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Content returns a file of the machine, empty if there is none.
func Content(m *machine.Machine, path string) string {
	data, err := m.Read(path)
	if err != nil {
		return ""
	}
	return string(data)
}

// NewCA writes a CA as kubeadm does.
func NewCA(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	named := &pkiutil.CertConfig{Config: certutil.Config{CommonName: "kubernetes"}}
	cert, key, err := pkiutil.NewCertificateAuthority(named)
	if err != nil {
		t.Fatal(err)
	}
	if err := pkiutil.WriteCertAndKey(dir, "ca", cert, key); err != nil {
		t.Fatal(err)
	}
	return dir
}

// CopyCA puts a CA where a machine keeps it.
func CopyCA(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}
