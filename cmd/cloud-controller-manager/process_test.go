package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// patience is for what takes milliseconds on an idle machine.
const patience = time.Minute

// process is a running cloud-controller-manager.
type process struct {
	t       *testing.T
	cmd     *exec.Cmd
	port    int
	log     *syncBuffer
	ended   chan struct{}
	stopped sync.Once
}

// start runs the command with a kubeconfig, on a free port, with a Lease named
// after the test. It ends with the test at the latest.
func start(t *testing.T, kubeconfig []byte, args ...string) *process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	p := startWith(t, append([]string{
		"--kubeconfig=" + file, "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
	}, args...)...)
	p.port = port
	return p
}

// startWith runs the command with these arguments only.
func startWith(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{t: t, log: &syncBuffer{}, ended: make(chan struct{})}
	p.cmd = exec.Command("cloud-controller-manager", args...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // the exit code is in ProcessState
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("log of the process:\n%s", p.log)
		}
	})
	return p
}

// stop asks the process to end and returns its exit code.
func (p *process) stop() int {
	p.stopped.Do(func() { _ = p.cmd.Process.Signal(syscall.SIGTERM) })
	return p.exitCode()
}

// exitCode waits for the process to end.
func (p *process) exitCode() int {
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Error("the process does not end")
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
	return p.cmd.ProcessState.ExitCode()
}

// says waits for words in the log.
func (p *process) says(words string) {
	p.t.Helper()
	eventually(p.t, fmt.Sprintf("the log says %q", words), func(context.Context) error {
		if !strings.Contains(p.log.String(), words) {
			return fmt.Errorf("it does not")
		}
		return nil
	})
}

// healthy waits for /healthz.
func (p *process) healthy() {
	p.t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	eventually(p.t, "/healthz is ok", func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/healthz", p.port),
			nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("status %s", response.Status)
		}
		return nil
	})
}

// eventually polls until check is content.
func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waited %s until %s: %v", patience, what, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// freePort returns a port of the loopback interface that nobody listens on.
func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port
}

// client talks to the control plane as admin, or as whoever the configuration says.
func client(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// syncBuffer is a buffer that may be read while a process writes to it.
type syncBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
