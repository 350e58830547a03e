//go:build linux

package examples

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// insideVariable is the name of the test that runs in a network namespace of its own.
const insideVariable = "CCMADM_TEST_INSIDE"

// inNamespace starts the test again in a network namespace of its own, and returns whether it runs there. The namespace is gone with its
// last process.
func inNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv(insideVariable) == t.Name() {
		run(t, "ip", "link", "set", "lo", "up")
		return true
	}
	if *tools == "" {
		t.Fatal("-tools is missing: run make examples-check")
	}
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=15m", "-tools="+*tools)
	cmd.Env = append(os.Environ(), insideVariable+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 { // root in a user namespace
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return false
}

// dnsmasq is a DHCP server in a network namespace, joined with that of the test:
//
//	test: veth0 192.0.2.5, dhcp.py      server: veth1 192.0.2.1, dnsmasq
type dnsmasq struct {
	dir string
	pid string // of a process in its namespace
	cmd *exec.Cmd
}

// newDNSMasq makes the namespace. Nothing runs in it yet.
func newDNSMasq(t *testing.T) *dnsmasq {
	t.Helper()
	holder := exec.CommandContext(t.Context(), "sleep", "infinity")
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = holder.Process.Kill(); _ = holder.Wait() })
	d := &dnsmasq{dir: t.TempDir(), pid: strconv.Itoa(holder.Process.Pid)}
	run(t, "ip", "link", "add", "veth0", "type", "veth", "peer", "name", "veth1", "netns", d.pid)
	run(t, "ip", "address", "add", "192.0.2.5/24", "dev", "veth0")
	run(t, "ip", "link", "set", "veth0", "up")
	d.inside(t, "ip", "address", "add", "192.0.2.1/24", "dev", "veth1")
	d.inside(t, "ip", "link", "set", "veth1", "up")
	d.inside(t, "ip", "link", "set", "lo", "up")
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(d.log())
		}
	})
	return d
}

// inside runs a program in the namespace of the server.
func (d *dnsmasq) inside(t *testing.T, args ...string) {
	t.Helper()
	run(t, "nsenter", append([]string{"--net=/proc/" + d.pid + "/ns/net"}, args...)...)
}

// start runs dnsmasq with options, and waits until it listens.
func (d *dnsmasq) start(t *testing.T, options ...string) {
	t.Helper()
	libraries, err := filepath.Glob(*tools + "/usr/lib/*-linux-gnu*")
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(d.dir + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	args := []string{
		"--net=/proc/" + d.pid + "/ns/net", "env", "LD_LIBRARY_PATH=" + strings.Join(libraries, ":"), *tools + "/usr/sbin/dnsmasq",
		"--no-daemon", "--conf-file=/dev/null", "--port=0", "--log-facility=-", "--log-dhcp", "--dhcp-leasefile=" + d.dir + "/leases",
		"--interface=veth1", "--bind-interfaces",
	}
	d.cmd = exec.CommandContext(t.Context(), "nsenter", append(args, options...)...)
	d.cmd.Stderr = log
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.stop)
	within(t, time.Minute, "dnsmasq listens", func() bool { return strings.Contains(d.log(), "sockets bound exclusively") })
}

func (d *dnsmasq) stop() {
	_ = d.cmd.Process.Kill()
	_ = d.cmd.Wait()
}

func (d *dnsmasq) log() string {
	text, _ := os.ReadFile(d.dir + "/log")
	return string(text)
}

// leases are those that dnsmasq has, and when each of them ends.
func (d *dnsmasq) leases() map[string]time.Time {
	leases := map[string]time.Time{}
	text, _ := os.ReadFile(d.dir + "/leases")
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 5 {
			seconds, _ := strconv.ParseInt(fields[0], 10, 64)
			leases[fields[2]] = time.Unix(seconds, 0)
		}
	}
	return leases
}

// has waits until dnsmasq has these leases and no other ones.
func (d *dnsmasq) has(t *testing.T, after string, want ...string) {
	t.Helper()
	var got []string
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(50 * time.Millisecond) {
		got = got[:0]
		for address := range d.leases() {
			got = append(got, address)
		}
		if slices.Sort(got); slices.Equal(got, want) {
			return
		}
	}
	t.Errorf("%s: dnsmasq has leases of %v, want %v", after, got, want)
}

// within waits until something holds.
func within(t *testing.T, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	for began := time.Now(); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > limit {
			t.Fatalf("it does not hold within %v: %s", limit, what)
		}
	}
}

// startDHCP runs dhcp.py with pools, and returns it and its state file.
func startDHCP(t *testing.T, pools string, env ...string) (a adapter, state string) {
	t.Helper()
	state = filepath.Join(t.TempDir(), "state.json")
	return restartDHCP(t, state, pools, env...), state
}

func restartDHCP(t *testing.T, state, pools string, env ...string) adapter {
	t.Helper()
	return startAdapter(t, "dhcp.py", append([]string{"POOLS=" + pools, "RELAY=192.0.2.5", "STATE_FILE=" + state}, env...)...)
}

// gives expects an answer with an address. Without one, it is any.
func (a adapter) gives(t *testing.T, path, more, want string) string {
	t.Helper()
	code, body := a.call(t, "PUT", path, more)
	_, address, _ := strings.Cut(strings.Trim(body, `"}`), `: "`)
	if code != 200 || (want != "" && address != want) {
		t.Fatalf("%s%s: got %d %s, want 200 %s", path, more, code, body, want)
	}
	return address
}

// inUse are the fields of a body for a Service that has an address.
func inUse(address string) string {
	return fmt.Sprintf(`, "address": %q, "wanted": %q`, address, address)
}
