package phases

import (
	"context"
	"slices"

	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/journal"
)

// beginAdoption opens the journal where something is to be done, and holds its Lease from then on. What the phases would
// change is found by a dry run beforehand, and so is what they would be refused.
func beginAdoption(ctx context.Context, d *Data, rest []Phase, plan []*plannedNode) error {
	if d.DryRun {
		return nil
	}
	trial, err := tryPhases(ctx, d, rest)
	if err != nil {
		return err
	}
	if err := trial.Refusal(); err != nil {
		return err
	}
	pending := adoptionOf(d).Leave || slices.ContainsFunc(plan, func(n *plannedNode) bool {
		return !n.skipped && !settled(d, n)
	})
	for _, found := range d.known.foretold {
		pending = pending || found.change != ""
	}
	client, err := connect(d, machine.AdminConf)
	if err != nil {
		return err
	}
	cutShort, err := noteCutShort(ctx, client, plan)
	if err != nil || !pending && !cutShort {
		return err
	}
	before, err := recordBefore(ctx, d)
	if err != nil {
		return err
	}
	if err := openRun(ctx, d, client, before); err != nil {
		return err
	}
	if err := refuseOtherRecord(ctx, client, before); err != nil {
		return err
	}
	if _, err := noteCutShort(ctx, client, plan); err != nil { // the run before may have ended while its Lease was watched
		return err
	}
	return endRest(ctx, d, client, plan)
}

// recordBefore is what the cluster's record says when a run begins; empty: it has none.
func recordBefore(ctx context.Context, d *Data) (string, error) {
	s, err := d.Settings(ctx)
	if err != nil || s.Recorded == nil {
		return "", err
	}
	text, err := s.Recorded.Encode()
	return string(text), err
}

// settled tells whether a node is as the run would have it.
func settled(d *Data, n *plannedNode) bool {
	if adoptionOf(d).Leave {
		return !n.external
	}
	return n.external && n.initialized
}

// undoOfAdoption is the way back of a step that is the cluster's.
func undoOfAdoption(d *Data) string {
	if adoptionOf(d).Leave {
		return rollbackTo(d)
	}
	return "ccmadm leave"
}

// adoptionStep runs a phase, as a step of the journal where it changes something. Nodes have steps of their own.
func adoptionStep(ctx context.Context, d *Data, p Phase) error {
	change := d.known.foretold[p.Name].change
	if d.known.journal == nil || p.Journal == JournalItself || change == "" && p.Foretell == nil {
		return p.Run(ctx, d)
	}
	return journalStep(ctx, d, p, change, undoOfAdoption(d))
}

// nodeStep runs what changes one node, as a step of the journal.
func nodeStep(ctx context.Context, d *Data, step journal.Step, run func(context.Context) error) error {
	if d.known.journal == nil {
		return run(ctx)
	}
	return d.known.journal.Do(ctx, step, run)
}
