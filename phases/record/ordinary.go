package record

import (
	"context"

	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// Ordinary is the operation of join and of apply.
type Ordinary struct{ Defaults }

var _ workflow.Operation = Ordinary{}

// Settings lays what the user said over what the cluster, or an earlier phase, has recorded.
func (Ordinary) Settings(ctx context.Context, r *workflow.Run) (*settings.Settings, error) {
	return resolve(ctx, r)
}

// Record asks the cluster, once in a run.
func (Ordinary) Record(ctx context.Context, r *workflow.Run) (*state.Record, error) {
	return ExistingRecord(ctx, r)
}

// Prepare does nothing.
func (Ordinary) Prepare(context.Context, *workflow.Run) error { return nil }

// Step runs the phase, and in an existing cluster notes in the journal what it changes.
func (Ordinary) Step(ctx context.Context, r *workflow.Run, p workflow.Phase) error {
	if !r.Existing {
		return p.Run(ctx, r)
	}
	return workflow.ApplyStep(ctx, r, p)
}

// End closes an apply that was killed, and notes on the Node which release has worked here.
func (Ordinary) End(ctx context.Context, r *workflow.Run) error {
	if err := workflow.CloseAbandoned(ctx, r); err != nil {
		return err
	}
	workflow.NoteRelease(ctx, r)
	return nil
}
