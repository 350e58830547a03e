package adoption

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// plannedNodes are all nodes, in the order in which they are changed.
func (a *Adoption) plannedNodes(ctx context.Context, r *workflow.Run) ([]*fleet.Node, error) {
	return a.plan.Get(func() ([]*fleet.Node, error) {
		client, err := workflow.Connect(r.Env, machine.AdminConf)
		if err != nil {
			return nil, err
		}
		list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, finding.Refusedf("list nodes: %w", err).WithHint("nothing was changed")
		}
		here, err := workflow.NodeName(r.Host)
		if err != nil {
			return nil, err
		}
		s, err := r.Settings(ctx)
		if err != nil {
			return nil, err
		}
		var plan []*fleet.Node
		for i := range list.Items {
			n := &list.Items[i]
			planned := fleet.NewNode(n, here, a.Skip)
			planned.External, planned.Tainted, planned.ProviderID = fleet.IsExternal(n), nodes.IsTainted(n), n.Spec.ProviderID
			planned.Initialized = workflow.IsInitialized(n) && (!awaitsLifecycle(s) || a.Leave)
			if !planned.Ready {
				planned.Problems = append(planned.Problems, "it is not Ready")
			}
			plan = append(plan, planned)
		}
		fleet.WorkersFirst(plan)
		return plan, nil
	})
}

// awaitsLifecycle tells whether a run is to give the permission to delete Nodes: then each is initialized in this very
// run, though it has a provider ID. What a cloud does not know is not initialized, and would be deleted.
func awaitsLifecycle(s *settings.Settings) bool {
	return s.Lifecycle != config.LifecycleOff &&
		(s.Recorded == nil || s.ChangesProvider() || s.Recorded.Configuration.Lifecycle == config.LifecycleOff)
}
