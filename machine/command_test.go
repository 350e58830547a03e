package machine

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
)

// A program that does not end what it says is ended, and is no answer.
func TestMachine_Output_TooMuch(t *testing.T) {
	for _, line := range []string{"cat /dev/zero", "cat /dev/zero >&2", "head -c 16777217 /dev/zero"} {
		out, err := At("/").Output(t.Context(), "sh", "-c", line)
		if !errors.Is(err, errTooMuch) || len(out) > maxOutput {
			t.Errorf("%s: %d bytes, %v", line, len(out), err)
		}
	}
	if out, err := At("/").Output(t.Context(), "head", "-c", "16777216", "/dev/zero"); err != nil || len(out) != maxOutput {
		t.Errorf("%d bytes, %v", len(out), err)
	}
}

// systemctl answers as a real one does.
type systemctl struct {
	out, stderr string
	status      int
}

func (s systemctl) Run(ctx context.Context, c Command) error {
	if !slices.Contains(c.Env, "LC_ALL=C") {
		s.stderr = "in the language of the machine"
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", `printf %s "$1"; printf %s "$2" >&2; exit "$3"`, "sh", s.out, s.stderr, strconv.Itoa(s.status))
	cmd.Stdout, cmd.Stderr = c.Out, c.Err
	return cmd.Run()
}

// A systemd that cannot be asked says nothing about the unit.
func TestMachine_UnitEnabled(t *testing.T) {
	for _, tt := range []struct {
		systemctl
		enabled, fails bool
		without        bool // systemd
	}{
		{systemctl: systemctl{"enabled\n", "", 0}, enabled: true},
		{systemctl: systemctl{"static\n", "", 0}},
		{systemctl: systemctl{"disabled\n", "", 1}},
		{systemctl: systemctl{"not-found\n", "", 4}},
		{systemctl: systemctl{"", "Failed to get unit file state for x.service: No such file or directory\n", 1}},
		{systemctl: systemctl{"", "Failed to connect to bus: Connection refused\n", 1}, fails: true},
		{systemctl: systemctl{"", "Failed to connect to bus: No such file or directory\n", 1}, fails: true},
		{systemctl: systemctl{"", "Failed to connect to bus: Host is down\n", 1}, without: true},
		{systemctl: systemctl{"enabled\n", "", 0}, without: true, enabled: true},
		{systemctl: systemctl{"", "", 1}, fails: true},
	} {
		m := At(t.TempDir())
		if !tt.without {
			if err := os.MkdirAll(m.Path("/run/systemd/system"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		m.Runner = tt.systemctl
		enabled, err := m.UnitEnabled(t.Context(), "x.service")
		if enabled != tt.enabled || (err != nil) != tt.fails {
			t.Errorf("%+v: got %t, %v", tt.systemctl, enabled, err)
		}
	}
}
