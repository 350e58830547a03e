package manifeststest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Controllers is a kube-controller-manager that runs.
type Controllers struct {
	cmd *exec.Cmd
	dir string
}

// Controllers runs kube-controller-manager, from the directory of kube-apiserver, as an administrator and with these flags,
// --name=value, until the test ends. Its log is shown if the test has failed.
func (c *ControlPlane) Controllers(t *testing.T, flags ...string) {
	t.Helper()
	started, err := c.runControllers(flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		started.kill()
		started.ShowLog(t)
		if err := os.RemoveAll(started.dir); err != nil {
			t.Error(err)
		}
	})
}

// StartControllers does what Controllers does, for all tests: until the control plane stops.
func (c *ControlPlane) StartControllers(flags ...string) (*Controllers, error) {
	started, err := c.runControllers(flags...)
	if err == nil {
		c.controllers = append(c.controllers, started)
	}
	return started, err
}

func (c *ControlPlane) runControllers(flags ...string) (*Controllers, error) {
	apiServer, _ := binaries("")
	if apiServer == "" {
		return nil, errors.New("no kube-controller-manager: `go run ./test/lab build` makes it")
	}
	kubeconfig, err := c.Kubeconfig("controllers", "system:masters")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "kube-controller-manager-")
	if err != nil {
		return nil, fmt.Errorf("start kube-controller-manager: %w", err)
	}
	started := &Controllers{dir: dir}
	if err := started.start(filepath.Dir(apiServer), kubeconfig, flags); err != nil {
		return nil, errors.Join(fmt.Errorf("start kube-controller-manager: %w", err), os.RemoveAll(dir))
	}
	return started, nil
}

func (c *Controllers) start(programs string, kubeconfig []byte, flags []string) error {
	file := filepath.Join(c.dir, "kubeconfig")
	if err := os.WriteFile(file, kubeconfig, 0o600); err != nil {
		return err
	}
	log, err := os.Create(c.log())
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the process has it
	c.cmd = exec.Command(filepath.Join(programs, "kube-controller-manager"), append([]string{
		"--kubeconfig=" + file, "--leader-elect=false", "--secure-port=0", "--cert-dir=" + c.dir,
	}, flags...)...)
	c.cmd.Stdout, c.cmd.Stderr = log, log
	return c.cmd.Start()
}

func (c *Controllers) log() string { return filepath.Join(c.dir, "log") }

// ShowLog shows what it has written so far, if the test has failed.
func (c *Controllers) ShowLog(t testing.TB) {
	t.Helper()
	if !t.Failed() {
		return
	}
	log, err := os.ReadFile(c.log())
	t.Logf("log of kube-controller-manager (%v):\n%s", err, log)
}

func (c *Controllers) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait() // it was killed
}
