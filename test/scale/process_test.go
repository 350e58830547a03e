package scale

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// process is a running cloud-controller-manager.
type process struct {
	b   *testing.B
	cmd *exec.Cmd
	log *os.File
}

// start runs the binary with the defaults that ccmadm gives it, and the inventory, if there is one.
func start(b *testing.B, inventory string, args ...string) *process {
	b.Helper()
	dir := b.TempDir()
	kubeconfig, err := plane.Kubeconfig(user)
	if err != nil {
		b.Fatal(err)
	}
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			b.Fatal(err)
		}
		return path
	}
	args = append([]string{
		"--kubeconfig=" + write("kubeconfig", string(kubeconfig)), "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", freePort(b)),
	}, args...)
	if inventory != "" {
		list := write("machines.yaml", inventory)
		args = append(args, "--cloud-config="+write("cloud.conf",
			"apiVersion: ccmadm.dev/v1alpha1\nkind: OnPremConfiguration\ninventory: {file: "+list+"}\n"))
	}
	p := &process{b: b, cmd: exec.Command(*binary, args...)}
	if p.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		b.Fatal(err)
	}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(p.stop)
	return p
}

// stop ends the process, and shows its log where the benchmark failed.
func (p *process) stop() {
	if p.cmd.ProcessState != nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	if err := p.cmd.Wait(); err != nil {
		p.b.Errorf("the process ends with %v", err)
	}
	_ = p.log.Close()
	if log, err := os.ReadFile(p.log.Name()); err == nil && p.b.Failed() {
		p.b.Logf("end of its log:\n%s", log[max(0, len(log)-4000):])
	}
}

// megabytes reads a figure of the process's memory: VmRSS now, VmHWM at most so far.
func (p *process) megabytes(field string) float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), field+":")
	text, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	kilobytes, err := strconv.ParseFloat(text, 64)
	if err != nil {
		p.b.Fatalf("read %s: %v", field, err)
	}
	return kilobytes / 1024
}

// cpu returns the seconds of processor time that the process has used.
func (p *process) cpu() float64 {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		p.b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	var ticks float64
	for _, text := range fields[11:13] { // utime and stime, in hundredths on every Linux
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			p.b.Fatal(err)
		}
		ticks += n
	}
	return ticks / 100
}

func freePort(b *testing.B) int {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port
}
