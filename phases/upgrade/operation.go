package upgrade

import (
	"context"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/upgrade/planner"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

var _ workflow.Operation = (*Upgrade)(nil)

// End notes on the Node which release has worked here, unless the run is driven from another machine, which knows its own. A
// dry run ends as the run itself would where that is refused.
func (u *Upgrade) End(ctx context.Context, r *workflow.Run) error {
	if r.DryRun {
		return r.Refusal()
	}
	if !u.Driven {
		workflow.NoteRelease(ctx, r)
	}
	return nil
}

// Said has the manager come to the image that this run brings, once that is known.
func (u *Upgrade) Said(said *config.CloudConfiguration, _ *state.Record) {
	if u.manager != "" {
		said.ControllerManager.Image = u.manager
	}
}

// Amend has the settings be those of the version that the cluster comes to: kubeadm's half makes it so, or ends the run.
func (u *Upgrade) Amend(s *settings.Settings, rec *state.Record) {
	if rec != nil && planner.AgentGoesAlong(s.Profile, rec, u.manager) {
		s.NodeAgent.Image = ""
	}
	if u.target != nil {
		s.KubernetesVersion = "v" + u.target.String()
	}
}

// Manager says which image this run brings, and which a later control plane.
func (u *Upgrade) Manager() workflow.ManagerImage {
	m := workflow.ManagerImage{Ordered: true, Next: u.next}
	if u.manager != "" {
		m.By = u.imageBy
	}
	return m
}

// Elsewhere is the upgrade of each of them.
func (u *Upgrade) Elsewhere() string { return "ccmadm upgrade node" }
