package adoption

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// isGone tells of a worker that an autoscaler, or somebody else, has removed since the plan was made: there is nothing
// to be changed any more, and the others go on. Only the API server's word that there is no such Node counts. Failed is
// what has become of its step, if it was begun.
func (a *adopter) isGone(ctx context.Context, n *fleet.Node, failed error) bool {
	if n.ControlPlane || n.Here {
		return false // the cluster does not lose one in passing
	}
	if _, err := workflow.AskNode(ctx, a.client, n.Name); !apierrors.IsNotFound(err) {
		return false
	}
	n.Gone = true
	if failed == nil {
		a.r.Sayf("%s: its Node is gone meanwhile: left out", n.Name)
	} else {
		a.r.Sayf("%s: its Node is gone meanwhile: left out. What was under way there: %s", n.Name,
			finding.Clean(failed.Error()))
	}
	return true
}

// nodeStep is a step of the journal on a node. It has not failed where the Node goes while it is under way: no later
// run could end it.
func (a *adopter) nodeStep(
	ctx context.Context, n *fleet.Node, step journal.Step, run func(context.Context, *fleet.Node) error,
) error {
	return workflow.NodeStep(ctx, a.r, step, func(ctx context.Context) error {
		err := run(ctx, n)
		if err != nil && a.isGone(ctx, n, err) {
			return nil
		}
		return err
	})
}
