package record

import (
	"context"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/templates"
)

// Defaults are the decisions of join and of apply: the record is kept, and says what holds.
type Defaults struct{}

var _ workflow.Decisions = Defaults{}

// Begins is false: there is a record, or this machine makes the cluster.
func (Defaults) Begins() bool { return false }

// ManagerMayBeAway is false: a cluster has one.
func (Defaults) ManagerMayBeAway() bool { return false }

// OtherProvider names the Nodes that keep the cluster at its provider.
func (Defaults) OtherProvider(ctx context.Context, r *workflow.Run, known *config.CloudConfiguration) (bool, error) {
	return false, refuseProvider(ctx, r, known.Provider)
}

// Said changes nothing.
func (Defaults) Said(*config.CloudConfiguration, *state.Record) {}

// Mode is a static pod where the provider can run as one: it needs no scheduler.
func (Defaults) Mode(p *templates.Profile) config.Mode { return settings.AutoMode(p) }

// Amend changes nothing.
func (Defaults) Amend(*settings.Settings, *state.Record) {}

// Manager decides nothing.
func (Defaults) Manager() workflow.ManagerImage { return workflow.ManagerImage{} }

// Elsewhere is apply, on each of them.
func (Defaults) Elsewhere() string { return "ccmadm apply" }
