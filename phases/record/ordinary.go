package record

import (
	"context"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/templates"
)

// Ordinary is the operation of join and of apply.
type Ordinary struct{}

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

// Begins is false: there is a record, or this machine makes the cluster.
func (Ordinary) Begins() bool { return false }

// ManagerMayBeAway is false: a cluster has one.
func (Ordinary) ManagerMayBeAway() bool { return false }

// OtherProvider names the Nodes that keep the cluster at its provider.
func (Ordinary) OtherProvider(ctx context.Context, r *workflow.Run, known *config.CloudConfiguration) (bool, error) {
	return false, refuseProvider(ctx, r, known.Provider)
}

// Said changes nothing.
func (Ordinary) Said(*config.CloudConfiguration, *state.Record) {}

// Mode is a static pod where the provider can run as one: it needs no scheduler.
func (Ordinary) Mode(p *templates.Profile) config.Mode { return settings.AutoMode(p) }

// Amend changes nothing.
func (Ordinary) Amend(*settings.Settings, *state.Record) {}

// Manager decides nothing.
func (Ordinary) Manager() workflow.ManagerImage { return workflow.ManagerImage{} }

// Elsewhere is apply, on each of them.
func (Ordinary) Elsewhere() string { return "ccmadm apply" }
