package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/phases"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/kubeadm"
	"github.com/ccmadm/ccmadm/phases/machine"
)

// rollbacker is the command's flags.
type rollbacker struct {
	options phases.Options
	yes     bool
}

func newRollback(s phases.Streams) *cobra.Command {
	var r rollbacker
	r.options = phases.Options{Role: kubeadm.RoleInit, Living: true, Kubeadm: kubeadm.Flags(kubeadm.RoleInit)}
	cmd := &cobra.Command{
		Use:   "rollback [RUN]",
		Short: "Apply the settings that the cluster had before a run of ccmadm apply",
		Long: `Applies the settings that the cluster's record had before a run of the journal, or before the newest one that
has changed them: shows the difference, asks, and does what ` + "`ccmadm apply`" + ` does with a file that says
just that. It is a run of its own, so a rollback can be rolled back. Credentials, configuration files and the inventory
are in no record, and stay as they are.

It runs on a control plane. In mode StaticPod the other control planes are named, as by ` + "`ccmadm apply`" + `.`,
		Example: `  ccmadm rollback
  ccmadm rollback 7 --yes`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return r.run(cmd.Context(), s, args) },
	}
	flags := cmd.Flags()
	flags.BoolVarP(&r.yes, "yes", "y", false, "do not ask")
	flags.BoolVar(&r.options.Force, "force", false, "as with ccmadm apply")
	declareTimeout(cmd, &r.options)
	return cmd
}

func (r *rollbacker) run(ctx context.Context, s phases.Streams, args []string) error {
	id := 0
	if len(args) > 0 {
		var err error
		if id, err = runID(args[0]); err != nil {
			return err
		}
	}
	run, err := findRun(ctx, id)
	if err != nil {
		return err
	}
	wait := r.options.Flags.Wait
	settings, profile, err := phases.FormerSettings(run)
	if err != nil {
		return observed(err)
	}
	settings.Wait = wait
	if profile != "" {
		dir, err := os.MkdirTemp("", "ccmadm-profile-")
		if err != nil {
			return observed(fmt.Errorf("make a directory for the profile: %w", err))
		}
		defer func() { _ = os.RemoveAll(dir) }()
		settings.Profile = filepath.Join(dir, "profile.yaml")
		if err := os.WriteFile(settings.Profile, []byte(profile), 0o600); err != nil {
			return observed(fmt.Errorf("write the profile: %w", err))
		}
	}
	o := r.options
	o.Flags, o.Command, o.CheckFiles, o.Output = *settings, fmt.Sprintf("rollback %d", run.ID), checkFiles, "text"
	return r.apply(ctx, s, o, run, profile)
}

// findRun reads the journal, and without an ID the record, of this control plane's cluster, whatever KUBECONFIG says: what
// is applied is applied there.
func findRun(ctx context.Context, id int) (*journal.Run, error) {
	client, err := phases.ControlPlaneClient(machine.New(), version)
	if err != nil {
		return nil, observed(err)
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	runs, err := journal.Read(ctx, client)
	if err != nil {
		return nil, observed(err)
	}
	if id == 0 {
		run, err := phases.NewestChange(ctx, client, runs)
		return run, observed(err)
	}
	return phases.FindRun(runs, id)
}

// apply shows the difference, asks, and applies it.
func (r *rollbacker) apply(
	ctx context.Context, s phases.Streams, o phases.Options, run *journal.Run, profile string,
) error {
	fmt.Fprintf(s.Err, "[rollback] to before run %d, ccmadm %s on %s, %s\n", run.ID, run.Command, run.Machine,
		run.Began.UTC().Format(time.RFC3339))
	if strings.HasPrefix(run.Command, "upgrade ") {
		fmt.Fprintln(s.Err, "[rollback] the cloud-controller-manager goes back; Kubernetes stays at the version that it has")
	}
	shown := o
	shown.DryRun = true
	trial, err := phases.New(ctx, machine.New(), shown, s, version)
	if err != nil {
		return err
	}
	if err := phases.Run(ctx, trial, phases.Apply()); err != nil {
		return err
	}
	if is, err := trial.Settings(ctx); err != nil || is.OwnProfile != profile {
		return cmp.Or(err, error(finding.Refusedf("roll back: the cluster went by a built-in profile before that run").
			WithHint("ccmadm apply -f FILE with the settings of before; nothing was changed")))
	}
	if err := trial.Refusal(); err != nil {
		return err
	}
	if !trial.Changed() {
		fmt.Fprintln(s.Out, "[rollback] the cluster is as it was before that run: nothing to do")
		return nil
	}
	if !r.yes && !phases.Confirmed(s.In, s.Err, "Apply this?") {
		return finding.Refusedf("roll back: it was not confirmed").WithHint("--yes does not ask. Nothing was changed")
	}
	d, err := phases.New(ctx, machine.New(), o, s, version)
	if err != nil {
		return err
	}
	return phases.Run(ctx, d, phases.Apply())
}
