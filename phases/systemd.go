package phases

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/ccmadm/ccmadm/phases/kubeadm"
)

// serviceActive asks systemd. A machine without systemd has no active services.
func serviceActive(ctx context.Context, name string) bool {
	return exec.CommandContext(ctx, "systemctl", "is-active", "--quiet", name).Run() == nil
}

// systemctl runs a command on the service manager, and none where there is no manager, as when an image is built.
func (d *Data) systemctl(ctx context.Context, args ...string) error {
	if d.DryRun {
		return nil
	}
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return nil //nolint:nilerr // systemd does not run here; it will read the files when it does
	}
	if out, err := exec.CommandContext(ctx, "systemctl", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("run systemctl %s: %w: %s", args[0], err, kubeadm.LastLine(out))
	}
	return nil
}
