package adoption

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/fleet"
)

// each changes the nodes in the order of the plan: workers as many at a time as was asked for, control planes alone.
func (a *adopter) each(ctx context.Context, plan []*fleet.Node,
	change func(context.Context, *fleet.Node) error,
) error {
	progress := fleet.NewNodesProgress(a.r.Env, plan)
	one := func(n *fleet.Node) error {
		if a.isGone(ctx, n, nil) {
			return nil
		}
		return change(ctx, n)
	}
	workers := slices.IndexFunc(plan, func(n *fleet.Node) bool { return n.ControlPlane || n.Here })
	if workers < 0 {
		workers = len(plan)
	}
	failed := progress.Each(plan[:workers], a.op.Parallel, one)
	if len(failed) == 0 {
		failed = progress.Each(plan[workers:], 1, one)
	}
	if len(failed) == 0 {
		return nil
	}
	return a.stopped(failed)
}

// stopped says how to go on and how to go back.
func (a *adopter) stopped(failed []fleet.FailedNode) error {
	last := "the nodes before are done, and those after were not touched; run the same command again: it resumes here"
	var hints []string
	if !a.op.Leave {
		var names []string
		for _, n := range failed {
			names = append(names, n.Name)
			if n.Tainted {
				hints = append(hints, fmt.Sprintf("no pod is scheduled to %s as long as it has its taint: "+
					"kubectl taint node %[1]s %s-", n.Name, v1alpha1.UninitializedTaint))
			}
		}
		last += "; `ccmadm node plain` on " + strings.Join(names, ", ") + " takes the kubelet back, `ccmadm leave` all"
	}
	return fleet.StoppedAt(failed, hints, last)
}
