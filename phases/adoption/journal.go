package adoption

import (
	"context"
	"slices"

	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// beginAdoption opens the journal where something is to be done, and holds its Lease from then on. What the phases would
// change is found by a dry run beforehand, and so is what they would be refused.
func beginAdoption(ctx context.Context, d *workflow.Data, rest []workflow.Phase, plan []*fleet.Node) error {
	if d.DryRun {
		return nil
	}
	trial, err := workflow.TryPhases(ctx, d, rest)
	if err != nil {
		return err
	}
	if err := trial.Refusal(); err != nil {
		return err
	}
	pending := adoptionOf(d).Leave || slices.ContainsFunc(plan, func(n *fleet.Node) bool {
		return !n.Skipped && !settled(adoptionOf(d), n)
	})
	for _, found := range d.Known.Previews {
		pending = pending || found.Change != ""
	}
	client, err := workflow.Connect(d, machine.AdminConf)
	if err != nil {
		return err
	}
	cutShort, err := NoteCutShort(ctx, client, plan)
	if err != nil || !pending && !cutShort {
		return err
	}
	before, err := recordBefore(ctx, d)
	if err != nil {
		return err
	}
	if err := workflow.OpenRun(ctx, d, client, before); err != nil {
		return err
	}
	if err := workflow.RefuseOtherRecord(ctx, client, before); err != nil {
		return err
	}
	if _, err := NoteCutShort(ctx, client, plan); err != nil { // the run before may have ended while its Lease was watched
		return err
	}
	return endRest(ctx, d, client, plan)
}

// recordBefore is what the cluster's record says when a run begins; empty: it has none.
func recordBefore(ctx context.Context, d *workflow.Data) (string, error) {
	s, err := d.Settings(ctx)
	if err != nil || s.Recorded == nil {
		return "", err
	}
	text, err := s.Recorded.Encode()
	return string(text), err
}

// settled tells whether a node is as the run would have it.
func settled(a *Adoption, n *fleet.Node) bool {
	if a.Leave {
		return !n.External
	}
	return n.External && n.Initialized
}

// undoOfAdoption is the way back of a step that is the cluster's.
func undoOfAdoption(d *workflow.Data) string {
	if adoptionOf(d).Leave {
		return workflow.RollbackTo(d)
	}
	return "ccmadm leave"
}

// adoptionStep runs a phase, as a step of the journal where it changes something. Nodes have steps of their own.
func adoptionStep(ctx context.Context, d *workflow.Data, p workflow.Phase) error {
	change := d.Known.Previews[p.Name].Change
	if d.Known.Journal == nil || p.Journal == workflow.JournalItself || change == "" && p.Plan == nil {
		return p.Run(ctx, d)
	}
	return workflow.JournalStep(ctx, d, p, change, undoOfAdoption(d))
}
