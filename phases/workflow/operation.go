package workflow

import (
	"context"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/templates"
)

// Operation is one of ccmadm's commands: how it runs, and what it decides about its cluster. record.Ordinary is that of join and
// apply; other operations embed it, and replace what they do otherwise.
type Operation interface {
	Decisions
	// Settings resolves the settings. It is asked once in a run.
	Settings(ctx context.Context, r *Run) (*settings.Settings, error)
	// Record is the record of the existing cluster that the run goes by; nil: it has none.
	Record(ctx context.Context, r *Run) (*state.Record, error)
	// Prepare completes what the run begins with, before its first phase.
	Prepare(ctx context.Context, r *Run) error
	// Step runs a phase, as a step of the journal where it changes something.
	Step(ctx context.Context, r *Run, p Phase) error
	// End is called after the last phase of a run in which none has failed.
	End(ctx context.Context, r *Run) error
}

// Decisions are what an operation decides about settings, the record and the cloud-controller-manager. Packages record and
// manager ask for them; no run depends on them otherwise.
type Decisions interface {
	// Begins says that the cluster may have no record yet, because the operation publishes the first one.
	Begins() bool
	// ManagerMayBeAway says that it is no news where no manager is found.
	ManagerMayBeAway() bool
	// OtherProvider judges a run that names another provider than the cluster's record, and tells whether the operation
	// changes it.
	OtherProvider(ctx context.Context, r *Run, known *config.CloudConfiguration) (changes bool, err error)
	// Said completes what the user said. There may be no record.
	Said(said *config.CloudConfiguration, rec *state.Record)
	// Mode is what mode Auto stands for.
	Mode(p *templates.Profile) config.Mode
	// Amend changes the settings once their profile is known. There may be no record.
	Amend(s *settings.Settings, rec *state.Record)
	// Manager is what the operation decides about the manager's image.
	Manager() ManagerImage
	// Elsewhere is the command that brings other control planes to the same state.
	Elsewhere() string
}

// ManagerImage is what an operation decides about the image of the cloud-controller-manager.
type ManagerImage struct {
	// Ordered says that the operation has an order of its own for managers and API servers.
	Ordered bool
	// By is who has chosen the image that this run brings; empty: it is found out.
	By state.ImageBy
	// Next is the image that a later control plane brings. It replaces what the record says where Ordered is set.
	Next string
}
