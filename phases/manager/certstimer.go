package manager

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ccmadm/ccmadm/kubeadm/identity"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/templates"
)

// InstallCertsTimer has systemd renew the identity before it ends. Where systemd does not run, or nobody here can sign,
// there is none, and `ccmadm certs check-expiration` says so.
func InstallCertsTimer(ctx context.Context, env *workflow.Env, certsDir string) error {
	if runs, err := env.Machine.HasSystemd(); err != nil || !runs {
		return err
	}
	if external, err := identity.ExternalCA(env.Machine, certsDir); err != nil || external {
		return err
	}
	program, err := programOf(env.Machine)
	if err != nil {
		return err
	}
	if program == "" {
		env.Sayf("%s stays as it is: this program is not on the machine", machine.CertsTimer)
		return nil
	}
	changed, unseen := false, true
	for _, f := range []machine.File{
		{Path: machine.CertsService, Data: templates.CertsService(program), Mode: 0o644},
		{Path: machine.CertsTimer, Data: templates.CertsTimer(), Mode: 0o644},
	} {
		there, err := env.Machine.Exists(f.Path)
		if err != nil {
			return err
		}
		differed, err := workflow.WriteChanged(env, f)
		if err != nil {
			return err
		}
		changed, unseen = changed || differed, unseen && !there
	}
	active, err := identity.TimerActive(ctx, env.Machine)
	if err != nil || active && !changed {
		return err
	}
	env.NoteChange(true)
	return startCertsTimer(ctx, env.Machine, unseen)
}

// programOf is where this program is on the machine. In a pod it works on one that may have none, or has it elsewhere:
// what a unit there starts is the machine's own. Empty: none, or one that a unit knows already.
func programOf(m *machine.Machine) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	if there, err := m.Exists(self); err != nil || there {
		return self, err
	}
	if unit, err := m.Exists(machine.CertsService); err != nil || unit {
		return "", err
	}
	for _, path := range []string{"/usr/local/bin/ccmadm", "/usr/bin/ccmadm"} {
		if there, err := m.Exists(path); err != nil || there {
			return path, err
		}
	}
	return "", nil
}

// startCertsTimer enables and starts it. For that systemd reads all of its units again, which takes a fifth of a second
// of each init; a unit that it has never seen it reads by itself, as of version 246.
func startCertsTimer(ctx context.Context, m *machine.Machine, unseen bool) error {
	timer := filepath.Base(machine.CertsTimer)
	if unseen && m.Systemctl(ctx, "enable", "--quiet", "--now", "--no-reload", timer) == nil {
		return nil
	}
	return m.Systemctl(ctx, "enable", "--quiet", "--now", timer)
}

// RemoveCertsTimer takes it away with the identity that it is for.
func RemoveCertsTimer(ctx context.Context, env *workflow.Env) error {
	timer, err := env.Machine.Exists(machine.CertsTimer)
	if err != nil {
		return err
	}
	if timer {
		if err := env.Machine.Systemctl(ctx, "disable", "--quiet", "--now", filepath.Base(machine.CertsTimer)); err != nil {
			return err
		}
	}
	service, err := env.Machine.Exists(machine.CertsService)
	if err != nil || !timer && !service {
		return err
	}
	for _, path := range []string{machine.CertsService, machine.CertsTimer} {
		if err := workflow.Remove(env, path); err != nil {
			return err
		}
	}
	return env.Machine.DaemonReload(ctx)
}
