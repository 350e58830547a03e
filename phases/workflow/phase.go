package workflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/kubernetes/cmd/kubeadm/app/cmd/phases/workflow"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
)

// ManagedModes are those in which ccmadm brings the cloud-controller-manager.
func ManagedModes() []config.Mode {
	return []config.Mode{config.ModeStaticPod, config.ModeDaemonSet, config.ModeDeployment}
}

// Phase is one step of a workflow.
type Phase struct {
	// Name is the sub-command, and the prefix of what the phase prints.
	Name string
	// Short is one line of help.
	Short string
	// Long says what the phase reads and writes.
	Long string
	// Only names the modes that the phase is for. Empty: all.
	Only []config.Mode
	// Shared says that the phase writes what belongs to the whole cluster.
	Shared bool
	// WithoutServer says that the phase has to run while no API server can be reached.
	WithoutServer bool
	// Journal says when the phase is a step of the journal.
	Journal Journaling
	// Undo is how to take the step back, for the journal; empty: the operation says.
	Undo string
	// Plan says what Run would do, in a dry run of a phase that has nothing to show for it. Nil: Run shows it itself,
	// through the machine and the applier.
	Plan func(context.Context, *Run) (string, error)
	// Run does it.
	Run func(context.Context, *Run) error
}

// Journaling says when a phase is a step of the journal.
type Journaling string

const (
	// JournalChanges is for a phase whose dry run shows what it changes: a step where it changes something, or waits.
	JournalChanges Journaling = ""
	// JournalNever is for a phase that writes nothing.
	JournalNever Journaling = "never"
	// JournalItself is for a phase that notes its steps itself.
	JournalItself Journaling = "itself"
	// JournalAlways is for a phase whose changes no dry run of ours can show.
	JournalAlways Journaling = "always"
)

// Bind puts phases on a workflow runner for cmd. The runner asks for its data once per command; build must return
// the same for a single phase and for the whole list, told apart by its second argument.
func Bind(cmd *cobra.Command, list []Phase, inherit []string, build func(cmd *cobra.Command, args []string, single bool) (*Run, error)) {
	runner := workflow.NewRunner()
	for _, p := range list {
		runner.AppendPhase(workflow.Phase{
			Name: p.Name, Short: p.Short, Long: p.Long, InheritFlags: inherit,
			Example: "  ccmadm " + cmd.Name() + " phase " + p.Name,
			Run: func(data workflow.RunData) error {
				r := data.(*Run) // build below makes nothing else
				return p.Do(r.ctx, r)
			},
		})
	}
	var made *Run
	runner.SetDataInitializer(func(sub *cobra.Command, args []string) (workflow.RunData, error) {
		r, err := build(sub, args, sub != cmd)
		made = r
		return r, err
	})
	runner.BindToCommand(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := runner.Run(args)
		if made == nil {
			return err
		}
		if err == nil {
			err = AsError(made.Operation.End(cmd.Context(), made))
		}
		if err == nil {
			made.sayNothingChanged()
		}
		return JoinErrors(err, made.End(cmd.Context(), err))
	}
}

// Do leaves out a phase that the mode has no use for, and gives plain errors their exit code, so that main can
// print them without the runner's own prefix.
func (p Phase) Do(ctx context.Context, r *Run) error {
	if err := ctx.Err(); err != nil {
		return &finding.Error{Code: finding.ExitError, Err: fmt.Errorf("stopped before phase %s: %w", p.Name, err), Hint: "fix the cause and run the same command again: it resumes here"}
	}
	r = r.InPhase(p.Name)
	r.WithoutServer = p.WithoutServer
	if wanted, err := p.wanted(ctx, r); err != nil || !wanted {
		return AsError(err)
	}
	if p.Plan == nil || !r.DryRun {
		err := AsError(journaled(ctx, r, p))
		if err == nil && r.Single { // there is no end of a list that says it
			r.sayNothingChanged()
		}
		return err
	}
	text, err := p.Plan(ctx, r)
	if err != nil {
		return AsError(err)
	}
	r.Sayf("%s", text)
	return nil
}

func (p Phase) wanted(ctx context.Context, r *Run) (bool, error) {
	if len(p.Only) == 0 {
		return true, nil
	}
	settings, err := r.Settings(ctx)
	if err != nil {
		return false, err
	}
	if slices.Contains(p.Only, settings.Mode) {
		return true, nil
	}
	if r.Single {
		r.Sayf("nothing to do in mode %s", settings.Mode)
	}
	return false, nil
}

// JoinErrors is the first error, with its exit code, and what went wrong after it.
func JoinErrors(err, later error) error {
	if err == nil || later == nil {
		return cmp.Or(err, AsError(later))
	}
	return AsError(errors.Join(err, later))
}

// AsError gives an error without an exit code that of a failed command.
func AsError(err error) error {
	var known *finding.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	return &finding.Error{Code: finding.ExitError, Err: err}
}
