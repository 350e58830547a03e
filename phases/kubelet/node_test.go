package kubelet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// nodeStep runs a step, and returns what it printed.
func runNode(t *testing.T, m *machine.Machine, plain bool, ip string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	o := NodeOptions{NodeIP: ip, Timeout: time.Second}
	r := NewNode(m, o, workflow.Streams{Out: &out, Err: &out, Getenv: func(string) string { return "" }}, "test")
	step := External
	if plain {
		step = Plain
	}
	err := step(t.Context(), r, o)
	return out.String(), err
}

func TestNode_ThereAndBack(t *testing.T) {
	m, runner := phasestest.KubeletOf(t)
	before := phasestest.KubeletFilesOf(t, m)
	out, err := runNode(t, m, false, machinetest.Address)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	running, err := m.RunningKubelet(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := runsWith(running, map[string]string{"cloud-provider": "external", "node-ip": machinetest.Address}); err != nil {
		t.Error(err)
	}
	if out, err := runNode(t, m, false, machinetest.Address); err != nil || !strings.Contains(out, "unchanged") ||
		phasestest.Restarts(runner) != 1 {
		t.Errorf("the second time: %v, %d restarts\n%s", err, phasestest.Restarts(runner), out)
	}
	// Killed after it had written, and before the restart.
	machinetest.Put(t, m, fmt.Sprintf("/proc/%d/cmdline", running.PID), "/usr/bin/kubelet\x00")
	if out, err := runNode(t, m, false, machinetest.Address); err != nil || phasestest.Restarts(runner) != 2 {
		t.Errorf("a kubelet that does not run with its files: %v, %d restarts\n%s", err, phasestest.Restarts(runner), out)
	}
	if out, err = runNode(t, m, true, ""); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if after := phasestest.KubeletFilesOf(t, m); after != before {
		t.Errorf("left:\n%s", after)
	}
	if _, err := os.Stat(m.Path(machine.ConfigDir)); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", machine.ConfigDir, err)
	}
	if out, err := runNode(t, m, true, ""); err != nil || !strings.Contains(out, "unchanged") || phasestest.Restarts(runner) != 3 {
		t.Errorf("the second time: %v, %d restarts\n%s", err, phasestest.Restarts(runner), out)
	}
}

// A machine that joined in external mode has the flag in kubeadm's file.
func TestNode_PlainOfAMachineThatJoined(t *testing.T) {
	m, _ := phasestest.KubeletOf(t)
	machinetest.Put(t, m, machine.KubeadmFlags, `KUBELET_KUBEADM_ARGS="--cloud-provider=external --node-ip=198.18.0.11 --v=2"`+"\n")
	if out, err := runNode(t, m, false, machinetest.Address); err != nil || machinetest.Content(m, machine.KubeletDropIn) != "" {
		t.Fatalf("%v, drop-in %q\n%s", err, machinetest.Content(m, machine.KubeletDropIn), out)
	}
	if out, err := runNode(t, m, true, ""); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := machinetest.Content(m, machine.KubeadmFlags); got != "KUBELET_KUBEADM_ARGS=\"--node-ip=198.18.0.11 --v=2\"\n" {
		t.Errorf("left %q", got)
	}
}

// An error on the way leaves the files as they were: a second run would take what is half done for the former state.
func TestNode_PlainCutByAnError(t *testing.T) {
	for _, fails := range []string{"systemctl disable --quiet ccmadm-kubelet.service", "systemctl daemon-reload"} {
		m, runner := phasestest.KubeletOf(t)
		machinetest.Put(t, m, machine.KubeadmFlags, `KUBELET_KUBEADM_ARGS="--cloud-provider=external --v=2"`+"\n")
		if out, err := runNode(t, m, false, machinetest.Address); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		runner.Answers["systemctl is-enabled ccmadm-kubelet.service"] = "enabled\n" // the package's
		before := phasestest.KubeletFilesOf(t, m)
		runner.Fails[fails] = errors.New("no answer")
		if out, err := runNode(t, m, true, ""); err == nil || !strings.Contains(err.Error(), "no answer") {
			t.Errorf("%s: %v\n%s", fails, err, out)
		}
		if after := phasestest.KubeletFilesOf(t, m); after != before {
			t.Errorf("%s: files are not as before:\n%s", fails, after)
		}
		if !slices.Contains(runner.Ran, "systemctl enable --quiet ccmadm-kubelet.service") {
			t.Errorf("%s: the package's unit was not enabled again: %q", fails, runner.Ran)
		}
		delete(runner.Fails, fails)
		if out, err := runNode(t, m, true, ""); err != nil || machinetest.Content(m, machine.KubeletDropIn) != "" {
			t.Errorf("%s: the second run: %v\n%s", fails, err, out)
		}
	}
}

func TestNode_KubeletThatDoesNotComeBack(t *testing.T) {
	for _, tt := range []struct {
		name, refuses string
		plain         bool
	}{
		{name: "in external mode", refuses: "--cloud-provider=external"},
		{name: "without", refuses: "--config=/var/lib/kubelet/config.yaml --pod-infra", plain: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, runner := phasestest.KubeletOf(t)
			if tt.plain {
				if out, err := runNode(t, m, false, machinetest.Address); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
			}
			runner.Answers["systemctl is-enabled ccmadm-kubelet.service"] = "enabled\n" // the package's
			before := phasestest.KubeletFilesOf(t, m)
			was, during := phasestest.Restarts(runner), runner.During
			runner.During = func(line string) {
				if line != "systemctl restart kubelet" {
					return
				}
				during(line)
				running, err := m.RunningKubelet(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if strings.Contains(strings.Join(running.Args, " "), tt.refuses) {
					runner.Answers["systemctl show -p MainPID"] = "0\n"
				}
			}
			out, err := runNode(t, m, tt.plain, machinetest.Address)
			var known *finding.Error
			if !errors.As(err, &known) || known.Code != finding.ExitError ||
				!strings.Contains(err.Error(), "its former flags were restored") {
				t.Errorf("%v\n%s", err, out)
			}
			if after := phasestest.KubeletFilesOf(t, m); after != before {
				t.Errorf("files are not as before:\n%s", after)
			}
			if enabled := slices.Contains(runner.Ran, "systemctl enable --quiet ccmadm-kubelet.service"); enabled != tt.plain {
				t.Errorf("the package's unit was enabled again: %t, want %t: %q", enabled, tt.plain, runner.Ran)
			}
			if n := phasestest.Restarts(runner) - was; n != 2 {
				t.Errorf("%d restarts, want one there and one back", n)
			}
		})
	}
}

// A step over SSH may outlive the run that has begun it: the next one waits for its end.
func TestNode_OneAtATime(t *testing.T) {
	m, runner := phasestest.KubeletOf(t)
	dir := filepath.Dir(machine.KubeletConfig)
	during := runner.During
	runner.During = func(line string) {
		during(line)
		if !strings.HasPrefix(line, "systemctl restart") {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if release, err := m.Lock(ctx, dir, func() {}); err == nil {
			t.Errorf("another step may begin while this one runs %s", line)
			release()
		}
	}
	release, err := m.Lock(t.Context(), dir, func() { t.Error("nobody else is at work yet") })
	if err != nil {
		t.Fatal(err)
	}
	before := phasestest.KubeletFilesOf(t, m)
	ended := make(chan string)
	go func() {
		out, err := runNode(t, m, false, machinetest.Address)
		ended <- fmt.Sprint(out, err)
	}()
	select {
	case out := <-ended:
		t.Errorf("it did not wait:\n%s", out)
	case <-time.After(500 * time.Millisecond):
	}
	if phasestest.KubeletFilesOf(t, m) != before {
		t.Error("files were changed meanwhile")
	}
	release()
	if out := <-ended; !strings.Contains(out, "another ccmadm process changes this machine") ||
		!strings.Contains(out, "was restarted, and answers") {
		t.Errorf("afterwards:\n%s", out)
	}
}

func TestNode_Refused(t *testing.T) {
	for _, tt := range []struct{ name, file, content, ip, want string }{
		{
			name: "a flag in two places", file: "/etc/default/kubelet",
			content: "KUBELET_EXTRA_ARGS=--node-ip=198.18.0.11 --node-ip=192.0.2.1\n", ip: machinetest.Address,
			want: "--node-ip is set in two places: ROOT/etc/default/kubelet:1: --node-ip=198.18.0.11 and " +
				"ROOT/etc/default/kubelet:1: --node-ip=192.0.2.1",
		},
		{
			name: "a flag that would win", file: "/etc/default/kubelet", content: "KUBELET_EXTRA_ARGS=--node-ip=0.0.0.0\n",
			ip:   machinetest.Address,
			want: "set the kubelet's --node-ip=198.18.0.11: ROOT/etc/default/kubelet:1: --node-ip=0.0.0.0 takes precedence",
		},
		{
			name: "another provider", file: machine.KubeadmFlags, content: "A=\"--cloud-provider=aws\"\n",
			ip: machinetest.Address, want: "ROOT/var/lib/kubelet/kubeadm-flags.env:1: --cloud-provider=aws takes precedence",
		},
		{
			name: "a flag that kubelets refuse", file: machine.KubeadmFlags, content: "A=\"--cloud-config=/etc/x\"\n",
			ip: machinetest.Address, want: "the kubelet refuses --cloud-config",
		},
		{name: "an address of another machine", ip: "192.0.2.1", want: "node IP 192.0.2.1 is not an address of this machine"},
		{name: "no address at all", ip: "here", want: "read --node-ip"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, runner := phasestest.KubeletOf(t)
			if tt.file != "" {
				machinetest.Put(t, m, tt.file, tt.content)
			}
			before := phasestest.KubeletFilesOf(t, m)
			_, err := runNode(t, m, false, tt.ip)
			if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), m.Root, "ROOT"), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if phasestest.KubeletFilesOf(t, m) != before || phasestest.Restarts(runner) != 0 {
				t.Error("something was changed")
			}
		})
	}
	m, _ := phasestest.KubeletOf(t)
	machinetest.Put(t, m, "/etc/default/kubelet", "KUBELET_EXTRA_ARGS=--cloud-provider=external\n")
	if _, err := runNode(t, m, true, ""); err == nil ||
		!strings.Contains(err.Error(), "/etc/default/kubelet:1: --cloud-provider=external was not set by ccmadm") {
		t.Errorf("plain with an administrator's flag: %v", err)
	}
}

func TestShowNode(t *testing.T) {
	m, runner := phasestest.KubeletOf(t)
	runner.Answers["kubelet --version"] = "Kubernetes v1.36.3\n"
	if out, err := runNode(t, m, false, machinetest.Address); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	machinetest.Put(t, m, "/etc/default/kubelet", "# a comment\nKUBELET_EXTRA_ARGS=--hostname-override=w1\n")
	report, err := ShowNode(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	var flags []string
	for _, f := range report.Flags {
		flags = append(flags, fmt.Sprintf("{Name:%s Value:%s From:%v Runs:%v}", f.Name, f.Value, f.From, f.Runs))
	}
	got := fmt.Sprintf("%s %v", report.Version, flags)
	want := "v1.36.3 [{Name:cloud-provider Value:external From:[ROOT/etc/ccmadm/kubelet.env] Runs:true} " +
		"{Name:node-ip Value:198.18.0.11 From:[ROOT/etc/ccmadm/kubelet.env] Runs:true} " +
		"{Name:hostname-override Value:w1 From:[ROOT/etc/default/kubelet:2] Runs:false}]"
	if got = strings.ReplaceAll(got, m.Root, "ROOT"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
