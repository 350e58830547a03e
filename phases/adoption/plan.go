package adoption

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/doctor/table"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// plannedNodes are all nodes, in the order in which they are changed: workers first, control planes after, this machine
// last. A worker that goes wrong costs least, and this machine drives the rest.
func plannedNodes(ctx context.Context, d *workflow.Data) ([]*fleet.Node, error) {
	return adoptionOf(d).plan.Get(func() ([]*fleet.Node, error) {
		client, err := workflow.Connect(d, machine.AdminConf)
		if err != nil {
			return nil, err
		}
		list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, finding.Refusedf("list nodes: %w", err).WithHint("nothing was changed")
		}
		here, err := workflow.NodeName(d)
		if err != nil {
			return nil, err
		}
		s, err := d.Settings(ctx)
		if err != nil {
			return nil, err
		}
		var plan []*fleet.Node
		for i := range list.Items {
			n := &list.Items[i]
			planned := fleet.NewNode(n, here, adoptionOf(d).Skip)
			planned.External, planned.Tainted, planned.ProviderID = fleet.IsExternal(n), nodes.IsTainted(n), n.Spec.ProviderID
			planned.Initialized = workflow.IsInitialized(n) && (!awaitsLifecycle(s) || adoptionOf(d).Leave)
			if !planned.Ready {
				planned.Problems = append(planned.Problems, "it is not Ready")
			}
			plan = append(plan, planned)
		}
		slices.SortFunc(plan, func(a, b *fleet.Node) int {
			rank := func(n *fleet.Node) int {
				switch {
				case n.Here:
					return 2
				case n.ControlPlane:
					return 1
				}
				return 0
			}
			return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Name, b.Name))
		})
		return plan, nil
	})
}

// awaitsLifecycle tells whether a run is to give the permission to delete Nodes: then each is initialized in this very
// run, though it has a provider ID. What a cloud does not know is not initialized, and would be deleted.
func awaitsLifecycle(s *settings.Settings) bool {
	return s.Lifecycle != v1alpha1.LifecycleOff &&
		(s.Recorded == nil || s.ChangesProvider() || s.Recorded.Configuration.Lifecycle == v1alpha1.LifecycleOff)
}

func adoptPreflight() workflow.Phase {
	return workflow.Phase{
		Name:    "preflight",
		Journal: workflow.JournalNever,
		Short:   "Check every node and show what would be done, and ask",
		Long: `Reads the cluster's record or, where there is none, kubeadm's configuration; the profile, credentials, Nodes,
the pods and the Lease of other cloud-controller-managers, webhooks, requests for certificates, and the kubelets' flags.
Writes nothing.`,
		Run: func(ctx context.Context, d *workflow.Data) error {
			err := workflow.RunChecks(ctx, d, []workflow.Check{
				{ID: finding.CheckPrivileged, Run: workflow.CheckRoot},
				{ID: finding.CheckClusterRecord, Run: checkAdoptable}, // which the settings need
				{ID: finding.CheckProvider, Run: record.CheckProvider},
				{ID: finding.CheckWritable, Run: workflow.CheckWritable},
				{ID: finding.CheckCloudConfig, Run: manager.CheckCloudConfig},
				{ID: finding.CheckManifests, Run: manager.CheckManifests},
			})
			if err != nil {
				return err
			}
			s, err := d.Settings(ctx)
			if err != nil {
				return err
			}
			if err := refuseOtherManagers(ctx, d, s); err != nil {
				return err
			}
			if err := refusePools(ctx, d, s); err != nil {
				return err
			}
			if err := refuseAdmission(ctx, d); err != nil {
				return err
			}
			plan, err := plannedNodes(ctx, d)
			if err != nil {
				return err
			}
			if err := adoptionOf(d).Check(plan); err != nil {
				return err
			}
			if err := examine(ctx, d, s, plan); err != nil {
				return err
			}
			if err := showPlan(d, plan); err != nil {
				return err
			}
			if err := refusePlan(plan, "them as they are, and the lifecycle off until they have followed"); err != nil {
				return err
			}
			err = confirm(d, fmt.Sprintf("Set these nodes to external cloud mode, with provider %s as a %s?", s.Provider,
				s.Mode))
			if err != nil {
				return err
			}
			return beginAdoption(ctx, d, Adopt()[1:], plan)
		},
	}
}

// refusePlan names what stands against nodes. Left is what --skip would leave.
func refusePlan(plan []*fleet.Node, left string) error {
	var wrong []error
	var names []string
	for _, n := range plan {
		if len(n.Problems) > 0 && !n.Skipped {
			wrong = append(wrong, fmt.Errorf("%s: %s", n.Name, strings.Join(n.Problems, "; ")))
			names = append(names, n.Name)
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return finding.Refusedf("%w", errors.Join(wrong...)).
		WithHint("--skip %s leaves %s; nothing was changed", strings.Join(names, ","), left)
}

// showPlan prints a table, and for programs an object for each node.
func showPlan(d *workflow.Data, plan []*fleet.Node) error {
	if d.Output == "json" {
		encoder := json.NewEncoder(d.Out)
		for _, n := range plan {
			if err := encoder.Encode(n.Line()); err != nil {
				return fmt.Errorf("show the plan: %w", err)
			}
		}
	}
	w := table.New(d.Progress(), "NODE", "ROLE", "KUBELET", "ADDRESS", "PROVIDER ID", "FLAGS", "TO DO")
	for _, n := range plan {
		l := n.Line()
		w.Row(l.Node, l.Role, l.Kubelet, l.Address, cmp.Or(l.ProviderID, "none"), l.Flags, l.ToDo)
	}
	return w.Flush()
}
