package adoption

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// kubeletStep is the journal's name for a change of a kubelet, and initializeStep for that of a Node.
const (
	kubeletStep    = "kubelet"
	initializeStep = "initialize"
)

// NoteCutShort marks nodes whose kubelet a run was changing when it was cut short: its files may be changed, and the
// process not, or a pod may be at it still. What such a kubelet says of itself now is not believed. It tells whether
// there are any. A taint of a run that has not come through is no taint of before.
func NoteCutShort(ctx context.Context, client kubernetes.Interface, plan []*fleet.Node) (bool, error) {
	runs, err := journal.Read(ctx, client)
	if err != nil {
		return false, err
	}
	kubelets, initializes := fleet.LastStates(runs, kubeletStep), fleet.LastStates(runs, initializeStep)
	pods, err := fleet.PodsOfSteps(ctx, client, fleet.StepPrefix)
	if err != nil {
		return false, finding.Refusedf("%w", err).WithHint("nothing was changed")
	}
	upgrades, err := fleet.PodsOfSteps(ctx, client, fleet.UpgradePrefix)
	if err != nil {
		return false, finding.Refusedf("%w", err).WithHint("nothing was changed")
	}
	found := false
	for _, n := range plan {
		if err := n.RefuseBeside(upgrades); err != nil && !n.Skipped {
			return false, err
		}
		if state, known := initializes[n.Name]; known && state != journal.Done {
			n.Tainted = false
		}
		state, known := kubelets[n.Name]
		n.Unsure = n.Unsure || !n.Skipped && (known && state != journal.Done || slices.ContainsFunc(pods, n.Runs))
		found = found || n.Unsure
	}
	return found, nil
}

// endRest ends what a run that was cut short has left at work, before anything else is done: whoever comes after it
// would find its kubelet changed behind them.
func (a *Adoption) endRest(ctx context.Context, env *workflow.Env, client kubernetes.Interface, plan []*fleet.Node) error {
	b := fleet.Pods{Env: env, Client: client, Grace: 2*a.NodeTimeout + time.Minute}
	for _, n := range plan {
		if !n.Unsure {
			continue
		}
		env.Sayf("%s: a run was cut short while it changed the kubelet: it is done again", n.Name)
		if err := b.RemoveFormer(ctx, n, fleet.StepPrefix); err != nil {
			return fmt.Errorf("end what a run has left on %s: %w", n.Name, err)
		}
	}
	return nil
}
