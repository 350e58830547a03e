package adoption

import (
	"context"
	"slices"

	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// openJournal opens the journal where something is to be done, and holds its Lease from then on. What the phases would
// change is found by a dry run beforehand, and so is what they would be refused.
func (a *Adoption) openJournal(ctx context.Context, r *workflow.Run, rest []workflow.Phase, plan []*fleet.Node) error {
	if r.DryRun {
		return nil
	}
	trial, err := workflow.PreviewPhases(ctx, r, rest)
	if err != nil {
		return err
	}
	if err := trial.Refusal(); err != nil {
		return err
	}
	pending := a.Leave || r.Course.Changes() || slices.ContainsFunc(plan, func(n *fleet.Node) bool {
		return !n.Skipped && !settled(a, n)
	})
	client, err := workflow.Connect(r.Env, machine.AdminConf)
	if err != nil {
		return err
	}
	cutShort, err := NoteCutShort(ctx, client, plan)
	if pending = pending || cutShort; err == nil && !pending {
		pending, err = unfinished(ctx, client, r.Command)
	}
	if err == nil {
		err = workflow.Begin(ctx, r, pending, journal.Failed)
	}
	if err != nil || r.Course.Journal == nil {
		return err
	}
	if _, err := NoteCutShort(ctx, client, plan); err != nil { // the run before may have ended while its Lease was watched
		return err
	}
	return a.endRest(ctx, r.Env, client, plan)
}

// unfinished tells whether the newest run of the journal that stopped halfway is of this command. One that was killed after its
// last change leaves nothing to do but to write down that it came to its end.
func unfinished(ctx context.Context, client kubernetes.Interface, command string) (bool, error) {
	runs, err := journal.Read(ctx, client)
	if err != nil {
		return false, err
	}
	last := journal.Unfinished(runs)
	return last != nil && last.Command == command, nil
}

// settled tells whether a node is as the run would have it.
func settled(a *Adoption, n *fleet.Node) bool {
	if a.Leave {
		return !n.External
	}
	return n.External && n.Initialized
}

// wayBack is the way back of a step that is the cluster's.
func (a *Adoption) wayBack(r *workflow.Run) string {
	if a.Leave {
		return workflow.RollbackTo(r)
	}
	return "ccmadm leave"
}

// Step runs a phase, as a step of the journal where it changes something. Nodes have steps of their own.
func (a *Adoption) Step(ctx context.Context, r *workflow.Run, p workflow.Phase) error {
	change := r.Course.Previews[p.Name].Change
	if r.Course.Journal == nil || p.Journal == workflow.JournalItself || change == "" && p.Plan == nil {
		return p.Run(ctx, r)
	}
	return workflow.JournalStep(ctx, r, p, change, a.wayBack(r))
}
