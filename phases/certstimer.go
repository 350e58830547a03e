package phases

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ccmadm/ccmadm/phases/identity"
	"github.com/ccmadm/ccmadm/phases/machine"
	"github.com/ccmadm/ccmadm/templates"
)

// installCertsTimer has systemd renew the identity before it ends. Where systemd does not run, or nobody here can sign,
// there is none, and `ccmadm certs check-expiration` says so.
func installCertsTimer(ctx context.Context, d *Data, certsDir string) error {
	if runs, err := d.Machine.HasSystemd(); err != nil || !runs {
		return err
	}
	if external, err := identity.ExternalCA(d.Machine, certsDir); err != nil || external {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	changed := false
	for _, f := range []machine.File{
		{Path: machine.CertsService, Data: templates.CertsService(self), Mode: 0o644},
		{Path: machine.CertsTimer, Data: templates.CertsTimer(), Mode: 0o644},
	} {
		differed, err := written(d, f)
		if err != nil {
			return err
		}
		changed = changed || differed
	}
	active, err := identity.TimerActive(ctx, d.Machine)
	if err != nil || active && !changed {
		return err
	}
	d.known.changed = true
	// enable has systemd read its units again by itself: once, for that takes a fifth of a second.
	return d.Machine.Systemctl(ctx, "enable", "--quiet", "--now", filepath.Base(machine.CertsTimer))
}

// removeCertsTimer takes it away with the identity that it is for.
func removeCertsTimer(ctx context.Context, d *Data) error {
	timer, err := d.Machine.Exists(machine.CertsTimer)
	if err != nil {
		return err
	}
	if timer {
		if err := d.Machine.Systemctl(ctx, "disable", "--quiet", "--now", filepath.Base(machine.CertsTimer)); err != nil {
			return err
		}
	}
	service, err := d.Machine.Exists(machine.CertsService)
	if err != nil || !timer && !service {
		return err
	}
	for _, path := range []string{machine.CertsService, machine.CertsTimer} {
		if err := remove(d, path); err != nil {
			return err
		}
	}
	return d.Machine.DaemonReload(ctx)
}
