package manager

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func TestCertsTimer(t *testing.T) {
	m, runner := machinetest.New(t)
	machinetest.Put(t, m, "/run/systemd/system/x", "")
	machinetest.CopyCA(t, machinetest.NewCA(t), m.Path(machine.PKIDir))
	runner.Fails["systemctl is-active"] = machine.ErrNotFound
	installSelf(t, m)
	const newOne = "systemctl enable --quiet --now --no-reload ccmadm-certs.timer"
	enabled := func() bool {
		return slices.Contains(runner.Ran, "systemctl enable --quiet --now ccmadm-certs.timer")
	}
	r := phasestest.Run{Config: phasestest.InitConfig}
	if out, err := r.Do(t, m, Kubeconfig()); err != nil || enabled() || !slices.Contains(runner.Ran, newOne) {
		t.Fatalf("%v\n%s\n%q", err, out, runner.Ran)
	}
	unit := machinetest.Content(m, machine.CertsService)
	if !strings.Contains(unit, " certs renew --if-within 720h") || strings.Contains(unit, "${") {
		t.Errorf("the service:\n%s", unit)
	}
	delete(runner.Fails, "systemctl is-active")
	runner.Ran = nil
	if out, err := r.Do(t, m, Kubeconfig()); err != nil || enabled() || strings.Contains(out, "written") {
		t.Errorf("a second run: %v\n%s\n%q", err, out, runner.Ran)
	}
	runner.Fails["systemctl is-active"] = machine.ErrNotFound
	if out, err := r.Do(t, m, Kubeconfig()); err != nil || !enabled() {
		t.Errorf("it was stopped: %v\n%s\n%q", err, out, runner.Ran)
	}
	mustRemove(t, m, machine.CertsService)
	mustRemove(t, m, machine.CertsTimer)
	runner.Ran, runner.Fails[newOne] = nil, errors.New("unit ccmadm-certs.timer not found")
	if out, err := r.Do(t, m, Kubeconfig()); err != nil || !enabled() {
		t.Errorf("a systemd that must read its units again: %v\n%s\n%q", err, out, runner.Ran)
	}

	var out bytes.Buffer
	if err := RemoveCertsTimer(t.Context(), record.NewBare(m, workflow.Inputs{}, workflow.Streams{Out: &out}, "test").Env); err != nil {
		t.Fatal(err)
	}
	if machinetest.Content(m, machine.CertsTimer)+machinetest.Content(m, machine.CertsService) != "" ||
		!slices.Contains(runner.Ran, "systemctl disable --quiet --now ccmadm-certs.timer") {
		t.Errorf("it is left: %q\n%s", runner.Ran, out.String())
	}
}

func TestCertsTimer_ExternalCA(t *testing.T) {
	m := identityMachine(t)
	machinetest.Put(t, m, "/run/systemd/system/x", "")
	mustRemove(t, m, machine.PKIDir+"/ca.key")
	if out, err := (phasestest.Run{Config: phasestest.InitConfig}).Do(t, m, Kubeconfig()); err != nil || machinetest.Content(m, machine.CertsTimer) != "" {
		t.Errorf("%v: a timer that could only fail\n%s", err, out)
	}
}

// copyKey gives the machine another CA's key.
func copyKey(t *testing.T, from string, m *machine.Machine) {
	t.Helper()
	key, err := os.ReadFile(filepath.Join(from, "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	machinetest.Put(t, m, machine.PKIDir+"/ca.key", string(key))
}

func mustRemove(t *testing.T, m *machine.Machine, path string) {
	t.Helper()
	if err := os.Remove(m.Path(path)); err != nil {
		t.Fatal(err)
	}
}

// installSelf puts what stands for this program where it runs from.
func installSelf(t *testing.T, m *machine.Machine) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	machinetest.Put(t, m, self, "")
}

// In a pod this program is none of the machine's: a unit that works there is kept, and a new one starts the machine's
// own.
func TestCertsTimer_OfAnotherRoot(t *testing.T) {
	const unit = "[Service]\nExecStart=/opt/bin/ccmadm certs renew\n"
	for _, tt := range []struct{ name, there, unit, want string }{
		{name: "a unit", there: "/usr/local/bin/ccmadm", unit: unit, want: "/opt/bin/ccmadm certs renew\n"},
		{name: "a program and no unit", there: "/usr/bin/ccmadm", want: "/usr/bin/ccmadm certs renew"},
		{name: "neither"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, runner := machinetest.New(t)
			machinetest.Put(t, m, "/run/systemd/system/x", "")
			machinetest.CopyCA(t, machinetest.NewCA(t), m.Path(machine.PKIDir))
			runner.Fails["systemctl is-active"] = machine.ErrNotFound
			if tt.unit != "" {
				machinetest.Put(t, m, machine.CertsService, tt.unit)
			}
			if tt.there != "" {
				machinetest.Put(t, m, tt.there, "")
			}
			r := phasestest.Run{Config: phasestest.InitConfig}
			out, err := r.Do(t, m, Kubeconfig())
			got := machinetest.Content(m, machine.CertsService)
			nothing := got == "" && strings.Contains(out, "stays as it is")
			if err != nil || !strings.Contains(got, tt.want) || tt.want == "" && !nothing {
				t.Errorf("%v\n%s\nthe service:\n%s", err, out, got)
			}
		})
	}
}
