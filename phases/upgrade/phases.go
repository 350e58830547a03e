package upgrade

import (
	"context"

	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// ControlPlane lists the phases of `ccmadm upgrade apply`, and of `ccmadm upgrade node` on a control plane, in
// their order. Those that apply has are the same ones.
func ControlPlane() []workflow.Phase {
	return []workflow.Phase{
		upgradePreflight(),
		cleanConfiguration(), // before kubeadm writes static pods from it
		kubeadmUpgrade(),
		noted(kubeletFlags()), // which kubeadm has written again
		noted(renewIdentity()),
		inTurn(manager.CloudConfig()),
		inTurn(manager.RBAC()),
		inTurn(manager.Addon()),
		inTurn(manager.ApplyControlPlane()),
		inTurn(manager.NodeAgent()),
		beforeOthers(inTurn(noted(manager.Rollout()))),
		manager.Record(), // until then, the record leads back
		beforeOthers(probeService()),
		upgradeOthers(), // once this machine is done, of which the others take the configuration
		showRest(),
	}
}

// Worker lists the phases of `ccmadm upgrade node` on a worker. A kubelet's permissions give it no journal.
func Worker() []workflow.Phase {
	return []workflow.Phase{
		workerPreflight(),
		kubeadmUpgrade(),
		kubeletFlags(),
		probeService(),
		showWorkersRest(),
	}
}

// inTurn leaves a phase out until the manager's turn has come.
func inTurn(p workflow.Phase) workflow.Phase {
	run, plan := p.Run, p.Plan
	p.Run = func(ctx context.Context, r *workflow.Run) error {
		if upgradeOf(r).manager == "" {
			return nil
		}
		return run(ctx, r)
	}
	if plan != nil {
		p.Plan = func(ctx context.Context, r *workflow.Run) (string, error) {
			if upgradeOf(r).manager == "" {
				return "nothing yet", nil
			}
			return plan(ctx, r)
		}
	}
	return p
}

// noted has a phase be a step of each upgrade that changes something, with nothing to be taken back.
func noted(p workflow.Phase) workflow.Phase {
	p.Journal, p.Undo = workflow.JournalAlways, "none is needed"
	return p
}
