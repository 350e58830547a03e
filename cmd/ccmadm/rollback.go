package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/completion"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/observer"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/providers"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/usage"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/adoption"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/rollback"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/provider/balancer"
)

// rollbacker is the command's flags.
type rollbacker struct {
	options  workflow.Inputs
	yes      bool
	verbose  bool
	via      string
	adoption adoption.Adoption // of a run of adopt or leave
	files    config.CloudConfiguration
	keys     []string // of credentials
	// line rolls back the same run again, also where another one is the newest by then.
	line func(run int) string
	// open says that an earlier rollback of the same run may have nothing left but its end in the journal.
	open bool
}

func newRollback(s workflow.Streams) *cobra.Command {
	var r rollbacker
	r.options = workflow.Inputs{Role: kubeadm.RoleInit, Existing: true, Operation: record.Ordinary{}}
	cmd := &cobra.Command{
		Use:   "rollback [RUN]",
		Short: "Roll back a run of ccmadm apply, adopt or leave",
		Long: `Applies the settings that the cluster's record had before a run of the journal, or before the newest run that changed them.
It shows the difference, asks, and does the same as ` + "`ccmadm apply`" + ` with a file of these settings. A rollback is a run of its
own, and can be rolled back. Credentials, configuration files and the inventory are in no record, and stay as they are.

Rolling back a run of ` + "`ccmadm adopt`" + ` executes ` + "`ccmadm leave`" + `. Rolling back a run of ` + "`ccmadm leave`" + ` executes
` + "`ccmadm adopt`" + ` with the settings recorded at that time. Both start from the step where the run stopped; --via selects how
steps run on other machines. Without RUN this applies only to the newest run. If leave has removed the provider's files, pass
them again.

Without RUN, a rollback that was interrupted or has failed is completed. Its own number as RUN undoes it.

It runs on a control plane. In mode StaticPod it names the other control planes, as ` + "`ccmadm apply`" + ` does.`,
		Example: `  ccmadm rollback
  ccmadm rollback 7 --yes
  ccmadm rollback --via pods   # of adopt, or leave
  ccmadm rollback --via pods --cloud-config cloud.conf --credential token=token   # of a leave that has come to its end`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r.line = func(run int) string { return commandLine(cmd, []string{strconv.Itoa(run)}) }
			return r.run(cmd.Context(), s, args)
		},
	}
	cmd.ValidArgsFunction = completion.Runs(completion.ControlPlane)
	flags := cmd.Flags()
	flags.BoolVarP(&r.yes, "yes", "y", false, "do not ask")
	flags.BoolVar(&r.options.Force, "force", false, "as with ccmadm apply")
	declareTimeout(cmd, &r.options)
	declareVerbose(flags, &r.verbose)
	declareVia(flags, &r.via, &r.adoption.Remote)
	declareNodeTimeout(flags, &r.adoption)
	flags.StringVar(&r.files.CloudConfig.File, "cloud-config", "", "the provider's configuration file, which leave has removed")
	flags.StringArrayVar(&r.keys, "credential", nil, "KEY=FILE or KEY=env:NAME, as with ccmadm adopt; may be repeated")
	flags.StringVar(&r.files.Inventory, "inventory", "", "list of the site's machines, which leave has removed")
	return cmd
}

func (r *rollbacker) run(ctx context.Context, s workflow.Streams, args []string) error {
	id, err := runID(args, "the steps of a run are undone together", "ccmadm rollback")
	if err != nil {
		return err
	}
	runs, run, err := findRun(ctx, id)
	if err != nil {
		return err
	}
	if adoption.IsAdoption(run) {
		return r.adopted(ctx, s, runs, run)
	}
	if r.givesFiles() {
		return noFiles(run)
	}
	wait := r.options.Flags.Wait
	settings, profile, err := rollback.FormerSettings(run)
	if err != nil {
		return usage.Observed(err)
	}
	settings.Wait = wait
	if profile != "" {
		dir, err := os.MkdirTemp("", "ccmadm-profile-")
		if err != nil {
			return usage.Observed(fmt.Errorf("make a directory for the profile: %w", err))
		}
		defer func() { _ = os.RemoveAll(dir) }()
		settings.Profile = filepath.Join(dir, "profile.yaml")
		if err := os.WriteFile(settings.Profile, []byte(profile), 0o600); err != nil {
			return usage.Observed(fmt.Errorf("write the profile: %w", err))
		}
	}
	o := r.options
	o.Quiet, o.Line = !r.verbose, r.line(run.ID)
	if o.ImageBy, err = rollback.FormerImageBy(run); err != nil {
		return usage.Observed(err)
	}
	o.Flags, o.Command, o.CheckFiles, o.Output = *settings, journal.Rollback(run.ID, ""), checkFiles, "text"
	r.open = workflow.LeftOpen(runs, o.Command) != nil
	return r.apply(ctx, s, o, run, profile)
}

// findRun reads the journal, and without an ID the record, of this control plane's cluster, whatever KUBECONFIG says: what
// is applied is applied there. It returns all runs, and the one.
func findRun(ctx context.Context, id int) ([]journal.Run, *journal.Run, error) {
	client, err := workflow.ControlPlaneClient(machine.New(), version)
	if err != nil {
		return nil, nil, observer.AskedHere(err)
	}
	ctx, cancel := context.WithTimeout(ctx, observer.Timeout)
	defer cancel()
	runs, err := journal.Read(ctx, client)
	if err != nil {
		return nil, nil, observer.AskedHere(err)
	}
	if id == 0 {
		run, err := rollback.NewestChange(ctx, client, runs)
		return runs, run, observer.AskedHere(err)
	}
	run, err := journal.Find(runs, id)
	if err == nil && run.Shortened {
		err = finding.Refusedf("go back to before run %d: the journal has only its steps that did not succeed", id).
			WithHint("ccmadm journal %d shows them; nothing was changed", id)
	}
	return runs, run, err
}

// adopted goes the way of adopt or leave back, whose preflight shows what would be done, and asks.
func (r *rollbacker) adopted(ctx context.Context, s workflow.Streams, runs []journal.Run, run *journal.Run) error {
	client, err := workflow.ControlPlaneClient(machine.New(), version)
	if err != nil {
		return usage.Observed(err)
	}
	how := r.adoption
	how.Via, how.Yes = fleet.Via(r.via), r.yes
	if err := checkParallel(&how.Remote); err != nil {
		return err
	}
	o, list, err := adoption.Back(ctx, client, runs, run, &how)
	if err != nil {
		return usage.Observed(err)
	}
	o.Force, o.Quiet, o.CheckFiles, o.Output, o.Line = r.options.Force, !r.verbose, checkFiles, "text", r.line(run.ID)
	o.ReleaseBalancers = balancer.Release
	o.Flags.Wait = r.options.Flags.Wait
	outliveReader()
	sayBack(s, run)
	if how.Leave && r.givesFiles() {
		return noFiles(run)
	}
	if !how.Leave {
		lost, err := adoption.LostFiles(ctx, client, runs, run, o.Flags.Provider)
		if err != nil {
			return usage.Observed(err)
		}
		if err := r.giveFiles(s, &o.Flags, run, lost); err != nil {
			return err
		}
	}
	back, err := workflow.New(ctx, machine.New(), *o, s, version)
	if err != nil {
		return err
	}
	return r.resumable(run, back.Do(ctx, list))
}

// resumable gives an error without a hint the command that resumes, by the number of the run: without it, another change may be the
// newest by then.
func (r *rollbacker) resumable(run *journal.Run, err error) error {
	known := &finding.Error{Code: finding.ExitError}
	if errors.As(err, &known); err == nil || known.Hint != "" || known.Code == finding.ExitPreflight {
		return err
	}
	return (&finding.Error{Code: known.Code, Err: err}).WithHint("`%s` resumes", r.line(run.ID))
}

// giveFiles lays the files that are given over the settings of before, which have none. What is known to be lost has to
// be given.
func (r *rollbacker) giveFiles(s workflow.Streams, to *config.CloudConfiguration, run *journal.Run, lost adoption.Lost) error {
	var err error
	if r.files.Credentials, err = providers.Credentials(r.keys); err != nil {
		return err
	}
	if r.givesFiles() {
		to.Override(&r.files)
		return nil
	}
	const how = "--cloud-config FILE, --credential KEY=FILE and --inventory FILE"
	switch lost {
	case adoption.LostAll:
		return finding.Refusedf("go back to before run %d: the files of provider %s were removed since, and are in no record",
			run.ID, to.Provider).
			WithHint("give those that it had: ccmadm rollback %d with %s. Nothing was changed", run.ID, how)
	case adoption.LostPerhaps:
		fmt.Fprintf(s.Err, "[rollback] warning: configuration files, credentials and the list of machines are in no record; if "+
			"provider %s had some, say no, and give them with %s\n", to.Provider, how)
	}
	return nil
}

func noFiles(run *journal.Run) error {
	return finding.Usagef("go back to before run %d: ccmadm %s has removed no files that could be given again", run.ID, run.Command)
}

func (r *rollbacker) givesFiles() bool {
	return r.files.CloudConfig.File != "" || len(r.keys) > 0 || r.files.Inventory != ""
}

func sayBack(s workflow.Streams, run *journal.Run) {
	fmt.Fprintf(s.Err, "[rollback] to before run %d, ccmadm %s on %s, %s\n", run.ID, run.Command, run.Machine,
		run.Began.UTC().Format(time.RFC3339))
}

// apply shows the difference, asks, and applies it.
func (r *rollbacker) apply(
	ctx context.Context, s workflow.Streams, o workflow.Inputs, run *journal.Run, profile string,
) error {
	sayBack(s, run)
	if run.Operation().Subject == journal.KubernetesVersion {
		fmt.Fprintln(s.Err, "[rollback] the cloud-controller-manager goes back; Kubernetes stays at the version that it has")
	}
	shown := o
	shown.DryRun = true
	trial, err := workflow.New(ctx, machine.New(), shown, s, version)
	if err != nil {
		return err
	}
	if err := trial.Do(ctx, manager.Apply()); err != nil {
		return err
	}
	if is, err := trial.Settings(ctx); err != nil || is.OwnProfile != profile {
		return cmp.Or(err, error(finding.Refusedf("roll back: the cluster went by a built-in profile before that run").
			WithHint("ccmadm apply -f FILE with the settings of before; nothing was changed")))
	}
	if err := trial.Refusal(); err != nil {
		return err
	}
	if !trial.Changed() && !r.open {
		fmt.Fprintln(s.Out, "[rollback] the cluster is as it was before that run: nothing to do")
		return nil
	}
	if trial.Changed() && !r.yes && !workflow.Confirmed(s.In, s.Err, "Apply this?") {
		return finding.Refusedf("roll back: it was not confirmed").WithHint("answer y, or give --yes. Nothing was changed")
	}
	back, err := workflow.New(ctx, machine.New(), o, s, version)
	if err != nil {
		return err
	}
	back.GoesBy(ctx, trial)
	return r.resumable(run, back.Do(ctx, manager.Apply()))
}
