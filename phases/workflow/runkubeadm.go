package workflow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/redact"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
)

// RunKubeadm runs the installed kubeadm and streams what it prints. kubeadm's own dry run gets a directory outside
// /etc, and there the configuration that this dry run has not written.
func RunKubeadm(ctx context.Context, h *Host, args ...string) error {
	if !h.DryRun {
		return Stream(ctx, h.Env, args, machine.Command{Args: args, Changes: true})
	}
	dir, err := os.MkdirTemp("", "ccmadm-dryrun-")
	if err != nil {
		return fmt.Errorf("make a directory for kubeadm's dry run: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // below the temporary directory
	config := filepath.Join(dir, "kubeadm.yaml")
	if err := os.WriteFile(config, h.KubeadmFile.Bytes(), 0o600); err != nil {
		return fmt.Errorf("write the configuration of kubeadm's dry run: %w", err)
	}
	return Stream(ctx, h.Env, args, machine.Command{
		Args: append(slices.Clone(args), "--config="+config), // the last one wins
		Env:  []string{"KUBEADM_INIT_DRYRUN_DIR=" + dir, "KUBEADM_JOIN_DRYRUN_DIR=" + dir},
	})
}

// Stream shows what is run, as the user would have to type it, and all that it prints. What a dry run prints has objects
// and files in it, and is shown without credentials once it is complete: kubeadm asks for nothing then. An Out of the command
// gets what is printed, too.
func Stream(ctx context.Context, env *Env, shown []string, c machine.Command) error {
	out := env.Progress()
	if c.Out != nil {
		out = io.MultiWriter(out, c.Out)
	}
	c.Name, c.In, c.Out, c.Err = "kubeadm", env.In, out, env.Err
	env.seen.ran = env.seen.ran || !env.DryRun
	env.Sayf("running kubeadm %s", strings.Join(kubeadm.MaskArgs(shown), " "))
	var dry bytes.Buffer
	if env.DryRun {
		c.Out, c.Err = &dry, &dry
	}
	err := env.Machine.Runner.Run(ctx, c)
	fmt.Fprint(env.Progress(), redact.Fields(dry.String()))
	if errors.Is(err, machine.ErrNotFound) {
		return kubeadm.ErrNotInstalled()
	}
	if err == nil {
		return nil
	}
	failed := finding.Errorf("run kubeadm %s: %w", shown[0], err)
	if ctx.Err() != nil { // told to stop: what kubeadm has printed is no cause, and the command says how it goes on
		return failed
	}
	return failed.WithHint("kubeadm's output above has the cause; fix it and run the same ccmadm command again: it resumes here")
}

// InitHalf returns the arguments for one half of `kubeadm init`. The phases to be skipped are given as a flag, and
// the flag makes kubeadm ignore skipPhases in the file, so the user's own are added to it.
func InitHalf(r *Run, skip []string) []string {
	args := []string{"init", "--config=" + machine.KubeadmConfig, "--skip-phases=" + strings.Join(append(slices.Clone(skip), r.SkipPhases...), ",")}
	return append(KubeadmFlags(r, args), r.KubeadmRest...)
}

// KubeadmFlags appends what kubeadm and ccmadm have in common.
func KubeadmFlags(r *Run, args []string) []string {
	if len(r.IgnorePreflightErrors) > 0 {
		args = append(args, "--ignore-preflight-errors="+strings.Join(r.IgnorePreflightErrors, ","))
	}
	if r.DryRun {
		args = append(args, "--dry-run")
	}
	return args
}
