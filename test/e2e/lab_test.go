package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	labBinary    = "../../bin/lab"
	ccmadmBinary = "../../bin/ccmadm"
	ccmImage     = "../../bin/images/cloud-controller-manager.tar"
)

// lab is a set of machines.
type lab struct {
	name       string
	nodes      []string
	kubeadmEnd float64   // of the last timed init, in ns
	step       minorStep // by which its Kubernetes is upgraded
}

// result is what a command on a machine did.
type result struct {
	out  string // both streams, in order
	code int
}

// up boots machines with ccmadm and its image on them.
func up(t testing.TB, name string, controlPlanes, workers int, flags ...string) *lab {
	t.Helper()
	return boot(t, name, controlPlanes, workers, append([]string{"--image", ccmImage, "--binary", ccmadmBinary}, flags...)...)
}

// boot boots machines with flags of the lab, and takes them down at the end of the test, however that ends.
func boot(t testing.TB, name string, controlPlanes, workers int, flags ...string) *lab {
	t.Helper()
	l := &lab{name: *labPrefix + "-" + name}
	for i := range controlPlanes {
		l.nodes = append(l.nodes, fmt.Sprintf("cp%d", i+1))
	}
	for i := range workers {
		l.nodes = append(l.nodes, fmt.Sprintf("w%d", i+1))
	}
	l.run(t, "down", "--name", l.name)
	t.Cleanup(func() {
		if t.Failed() {
			l.explain(t)
		}
		l.run(t, "down", "--name", l.name)
	})
	start := time.Now()
	l.run(t, append([]string{
		"up", "--install", "--name", l.name, "--kubernetes", *kubernetesMinor,
		"--control-planes", fmt.Sprint(controlPlanes), "--workers", fmt.Sprint(workers),
	}, flags...)...)
	t.Logf("%d machines up in %.1f s", len(l.nodes), time.Since(start).Seconds())
	return l
}

// buildProgram builds a program of this folder, static, for machines and images.
func buildProgram(t testing.TB, name string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), name)
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./"+name)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	return program
}

// run calls the lab's command.
func (l *lab) run(t testing.TB, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute) // cleanup runs after t's end
	defer cancel()
	out, err := exec.CommandContext(ctx, labBinary, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("lab %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// labOutput is what the lab's program prints. It builds what the cache lacks.
func labOutput(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	var log bytes.Buffer
	cmd := exec.CommandContext(ctx, labBinary, args...)
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("lab %v: %v\n%s", args, err, log.String())
	}
	return string(out)
}

// sh runs a shell script on a machine.
func (l *lab) sh(t testing.TB, node, script string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 6*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, labBinary, "exec", "--name", l.name, node, "--", "bash", "-c", script)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %s: %v", node, script, err)
	}
	return result{out: out.String(), code: cmd.ProcessState.ExitCode()}
}

// must runs a script that has to succeed.
func (l *lab) must(t testing.TB, node, script string) string {
	t.Helper()
	r := l.sh(t, node, script)
	if r.code != 0 {
		t.Fatalf("%s: %s: exit status %d\n%s", node, script, r.code, r.out)
	}
	return r.out
}

// kubectl runs on the first control plane.
func (l *lab) kubectl(t testing.TB, args string) string {
	t.Helper()
	return l.must(t, "cp1", "kubectl --kubeconfig /etc/kubernetes/admin.conf "+args)
}

// explain shows what a person would look at first.
func (l *lab) explain(t testing.TB) {
	for _, script := range []string{
		"ccmadm status",
		"kubectl --kubeconfig /etc/kubernetes/admin.conf get nodes,pods -A -o wide",
		"kubectl --kubeconfig /etc/kubernetes/admin.conf -n kube-system logs -l component=cloud-controller-manager --tail 30",
		"crictl ps -a 2>/dev/null || ctr -n k8s.io containers ls; journalctl -u kubelet --no-pager -n 20",
	} {
		r := l.sh(t, "cp1", script)
		t.Logf("$ %s\n%s", script, r.out)
	}
}

// together runs tests that share a lab at once. With t.Parallel each of them would wait for a lane of its own, behind all
// the tests that wait for one, and the machines of the lab would run for nothing.
func together(t *testing.T, tests map[string]func(*testing.T)) {
	t.Helper()
	var group sync.WaitGroup
	for name, test := range tests {
		group.Go(func() { t.Run(name, test) })
	}
	group.Wait()
}

// eventually repeats a check until it holds.
func eventually(t testing.TB, timeout time.Duration, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(timeout)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", timeout, what)
		}
		time.Sleep(500 * time.Millisecond)
	}
}
