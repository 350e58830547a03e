package manifeststest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Controllers runs kube-controller-manager, from the directory of kube-apiserver, as an administrator and with these flags,
// --name=value, until the test ends. Its log is shown if the test has failed.
func (c *ControlPlane) Controllers(t *testing.T, flags ...string) {
	t.Helper()
	apiServer, _ := binaries("")
	if apiServer == "" {
		t.Fatal("no kube-controller-manager: `go run ./test/lab build` makes it")
	}
	kubeconfig, err := c.Kubeconfig("controllers", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(file, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.Command(filepath.Join(filepath.Dir(apiServer), "kube-controller-manager"), append([]string{
		"--kubeconfig=" + file, "--leader-elect=false", "--secure-port=0", "--cert-dir=" + dir,
	}, flags...)...)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(fmt.Errorf("start kube-controller-manager: %w", err))
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("log of kube-controller-manager:\n%s", &log)
		}
	})
}
