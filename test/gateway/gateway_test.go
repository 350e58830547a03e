// Package gateway runs implementations of the Gateway API as their authors release them against a real API server with a
// cloud-controller-manager of provider onprem: which addresses Gateways get, how a refusal shows, and what admission says. It is a
// module of its own, and so is each implementation, whose go.mod pins it; both are under the Apache License 2.0, and nothing that is
// released has any of them.
//
// Start at TestContour. Contour writes spec.addresses to spec.loadBalancerIP, and TestEnvoyGateway is for the other way: Envoy Gateway
// writes them to spec.externalIPs. No machine runs a proxy, so no test sends a request.
//
// Reads: the programs of -programs, which make gateway-check builds, and those that manifests/manifeststest finds.
// Writes: temporary directories. Running it twice: every test has a control plane of its own.
package gateway

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var programs = flag.String("programs", "../../bin", "folder of the cloud-controller-manager, ccmadm, contour and envoy-gateway")

// patience is for what takes seconds on an idle machine.
const patience = 90 * time.Second

// until waits until the function finds nothing wrong.
func until(t *testing.T, what string, wrong func() string) {
	t.Helper()
	last := ""
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if last = wrong(); last == "" {
			return
		}
	}
	t.Fatalf("%s: not after %s: %s", what, patience, last)
}

// process is a program that runs until the test ends, if it is not stopped before.
type process struct {
	log  string // a file
	stop func()
}

// start runs a program. Its log is shown if the test has failed.
func start(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	name := filepath.Base(cmd.Path)
	log, err := os.CreateTemp(t.TempDir(), name)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	p := &process{log: log.Name()}
	p.stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait() // its end is asked for
		kill.Stop()
		_ = log.Close()
		if t.Failed() {
			text := p.text()
			t.Logf("end of the log of %s:\n%s", name, text[max(0, len(text)-6000):])
		}
	})
	t.Cleanup(p.stop)
	return p
}

// text is what the program has logged.
func (p *process) text() string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// program is the path of one of -programs.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(*programs, name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: make gateway-check builds it", err)
	}
	return path
}

// moduleFolder is where Go has a module that the module of an implementation requires.
func moduleFolder(t *testing.T, implementation, module string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module)
	cmd.Dir = implementation
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list -m %s: %v", module, err)
	}
	return strings.TrimSpace(string(out))
}

// output runs a command, and returns what it prints and whether it succeeds.
func output(ctx context.Context, name string, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, out)
	}
	return string(out), err
}

// freePorts are TCP ports of loopback that nothing listens on.
func freePorts(t *testing.T, number int) []int {
	t.Helper()
	var ports []int
	for range number {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = listener.Close() }() // once all are found, so that they differ
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// decode reads one object of the API as another type.
func decode(t *testing.T, from, into any) {
	t.Helper()
	data, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}
