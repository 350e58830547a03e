package phases

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/phases/kubeadm"
)

// kubeadm runs the installed kubeadm and streams what it prints. kubeadm's own dry run gets a directory outside
// /etc, and there the configuration that this dry run has not written.
func (d *Data) kubeadm(ctx context.Context, args ...string) error {
	cmd := kubeadm.Command(ctx, args...)
	if d.DryRun {
		dir, err := os.MkdirTemp("", "ccmadm-dryrun-")
		if err != nil {
			return fmt.Errorf("make a directory for kubeadm's dry run: %w", err)
		}
		defer os.RemoveAll(dir) //nolint:errcheck // below the temporary directory
		config := filepath.Join(dir, "kubeadm.yaml")
		if err := os.WriteFile(config, d.Kubeadm.Bytes(), 0o600); err != nil {
			return fmt.Errorf("write the configuration of kubeadm's dry run: %w", err)
		}
		cmd = kubeadm.Command(ctx, append(slices.Clone(args), "--config="+config)...) // the last one wins
		cmd.Env = append(os.Environ(), "KUBEADM_INIT_DRYRUN_DIR="+dir, "KUBEADM_JOIN_DRYRUN_DIR="+dir)
	}
	return d.stream(cmd, args)
}

// stream runs a command of kubeadm and shows all that it prints.
func (d *Data) stream(cmd *exec.Cmd, args []string) error {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = d.In, d.progress(), d.Err
	d.Sayf("running kubeadm %s", strings.Join(kubeadm.MaskArgs(args), " "))
	runtime.LockOSThread() // the signal above comes when the thread ends that started kubeadm
	defer runtime.UnlockOSThread()
	err := cmd.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return kubeadm.ErrNotInstalled()
	}
	if err != nil {
		return finding.Errorf("run kubeadm %s: %w", args[0], err).
			WithHint("kubeadm's own words are above; when the cause is fixed, the same ccmadm command goes on from here")
	}
	return nil
}

// askOnce spares a run the process starts: the version is wanted in several phases.
func askOnce(ctx context.Context) func() (*version.Version, error) {
	return sync.OnceValues(func() (*version.Version, error) { return kubeadm.Version(ctx) })
}

// initHalf returns the arguments for one half of `kubeadm init`. The phases to be skipped are given as a flag, and
// the flag makes kubeadm ignore skipPhases in the file, so the user's own are added to it.
func (d *Data) initHalf(skip []string) []string {
	rest, userSkips := kubeadm.TakeFlag(d.KubeadmRest, "skip-phases")
	if userSkips == nil {
		userSkips = d.Kubeadm.SkipPhases()
	}
	skip = append(slices.Clone(skip), userSkips...)
	args := []string{"init", "--config=" + KubeadmConfig, "--skip-phases=" + strings.Join(skip, ",")}
	return append(d.kubeadmFlags(args), rest...)
}

// kubeadmFlags appends what kubeadm and ccmadm have in common.
func (d *Data) kubeadmFlags(args []string) []string {
	if len(d.IgnorePreflightErrors) > 0 {
		args = append(args, "--ignore-preflight-errors="+strings.Join(d.IgnorePreflightErrors, ","))
	}
	if d.DryRun {
		args = append(args, "--dry-run")
	}
	return args
}
