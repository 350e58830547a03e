// Package phases runs ccmadm's own phases around kubeadm's.
//
// Start at [Init], [Join], [Apply], [Adopt] and [Leave]: the lists are the architecture. A [Phase] is a value; [Bind] puts a list of
// them on kubeadm's workflow runner, which gives each its sub-command, --skip-phases and help text.
//
// Reads: kubeadm configuration and flags, /etc/ccmadm, the kubelet's flag sources, the cluster's CA, the cluster.
// Writes: /etc/ccmadm, files of the cloud-controller-manager below /etc/kubernetes, the kubelet's drop-in, and
// objects in kube-system by server-side apply. What passes from one phase to a later one is on disk or in the
// cluster, never in memory: each phase runs alone in a fresh process, and a second run says "unchanged".
//
// A flag to a manifest: cmd/ccmadm declares it into [Options], [New] lays it over the user's file ([Data.Said]),
// settings.go lays that over the record once ([Data.Settings]), values.go makes of it what the templates vary in, and
// manifests.StaticPod renders it; controlplane.go writes the file, or, in a dry run, its machine shows it.
//
// It never edits a file that belongs to kubeadm or to the user, but for one flag that [Plain] takes away, and never runs kubeadm code in its own process:
// the kubeadm that is installed on the machine does kubeadm's work, and once it has finished, none does it again.
package phases

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/kubernetes/cmd/kubeadm/app/cmd/phases/workflow"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Phase is one step of a workflow.
type Phase struct {
	// Name is the sub-command, and the prefix of what the phase prints.
	Name string
	// Short is one line of help.
	Short string
	// Long says what the phase reads and writes.
	Long string
	// Only names the modes that the phase is for. Empty: all.
	Only []v1alpha1.Mode
	// Shared says that the phase writes what belongs to the whole cluster.
	Shared bool
	// WithoutServer says that the phase has to run while no API server can be reached.
	WithoutServer bool
	// Journal says when the phase is a step of the journal.
	Journal Journaling
	// Undo is how to take the step back, for the journal; empty: the operation says.
	Undo string
	// Foretell says what Run would do, in a dry run of a phase that has nothing to show for it. Nil: Run shows it itself,
	// through the machine and the applier.
	Foretell func(context.Context, *Data) (string, error)
	// Run does it.
	Run func(context.Context, *Data) error
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

// Init lists the phases of `ccmadm init` in their order.
func Init() []Phase {
	return []Phase{
		initPreflight(),
		kubeadmConfig(),
		controlPlaneVIP(), // the second half of kubeadm, and all after it, reach the API server at this address
		kubeadmControlPlane(),
		kubeconfig(), // signed by the CA that kubeadm has made
		controlPlane(),
		cloudConfig(), // before the CCM may do anything: its first reading of an inventory finds one
		rbac(),        // as early as the API server answers: the CCM initializes the node while kubeadm finishes
		kubeadmFinish(),
		addon(),
		nodeAgent(),
		record(),
		waitNodes(),
		showJoinCommand(),
	}
}

// Join lists the phases of `ccmadm join` in their order.
func Join() []Phase {
	return []Phase{
		joinPreflight(),
		fetchRecord(),
		kubelet(),
		kubeadmJoin(),
		joinKubeconfig(), // the CA's key has arrived by now, if this is a control plane
		joinControlPlane(),
		joinControlPlaneVIP(),
		waitNodes(),
	}
}

// Bind puts phases on a workflow runner for cmd. The runner asks for its data once per command; build must return
// the same for a single phase and for the whole list, told apart by its second argument.
func Bind(cmd *cobra.Command, list []Phase, inherit []string, build func(cmd *cobra.Command, args []string, single bool) (*Data, error)) {
	runner := workflow.NewRunner()
	for _, p := range list {
		runner.AppendPhase(workflow.Phase{
			Name: p.Name, Short: p.Short, Long: p.Long, InheritFlags: inherit,
			Run: func(data workflow.RunData) error {
				d := data.(*Data) // build below makes nothing else
				return p.run(d.ctx, d)
			},
		})
	}
	var made *Data
	runner.SetDataInitializer(func(sub *cobra.Command, args []string) (workflow.RunData, error) {
		d, err := build(sub, args, sub != cmd)
		made = d
		return d, err
	})
	runner.BindToCommand(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := runner.Run(args)
		if made == nil {
			return err
		}
		if err == nil {
			err = made.Operation.End(cmd.Context(), made)
		}
		return joined(err, made.end(cmd.Context(), err))
	}
}

// run leaves out a phase that the mode has no use for, and gives plain errors their exit code, so that main can
// print them without the runner's own prefix.
func (p Phase) run(ctx context.Context, d *Data) error {
	if err := ctx.Err(); err != nil {
		return &finding.Error{Code: finding.ExitError, Err: fmt.Errorf("stopped before phase %s: %w", p.Name, err), Hint: "the same command again goes on from here"}
	}
	d = d.in(p.Name)
	d.withoutServer = p.WithoutServer
	if wanted, err := p.wanted(ctx, d); err != nil || !wanted {
		return asError(err)
	}
	if p.Foretell == nil || !d.DryRun {
		return asError(journaled(ctx, d, p))
	}
	text, err := p.Foretell(ctx, d)
	if err != nil {
		return asError(err)
	}
	d.Sayf("%s", text)
	return nil
}

func (p Phase) wanted(ctx context.Context, d *Data) (bool, error) {
	if len(p.Only) == 0 {
		return true, nil
	}
	settings, err := d.Settings(ctx)
	if err != nil {
		return false, err
	}
	if slices.Contains(p.Only, settings.Mode) {
		return true, nil
	}
	if d.Single {
		d.Sayf("nothing to do in mode %s", settings.Mode)
	}
	return false, nil
}

// joined is the first error, with its exit code, and what went wrong after it.
func joined(err, later error) error {
	if err == nil || later == nil {
		return cmp.Or(err, asError(later))
	}
	return asError(errors.Join(err, later))
}

func asError(err error) error {
	var known *finding.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	return &finding.Error{Code: finding.ExitError, Err: err}
}
