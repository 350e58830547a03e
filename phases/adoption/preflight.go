package adoption

import (
	"cmp"
	"context"
	"fmt"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/table"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func adoptPreflight() workflow.Phase {
	return workflow.Phase{
		Name:    "preflight",
		Journal: workflow.JournalNever,
		Short:   "Check every node and show what would be done, and ask",
		Long: `Reads the cluster's record or, where there is none, kubeadm's configuration; the profile, credentials, Nodes,
the pods and the Lease of other cloud-controller-managers, webhooks, requests for certificates, and the kubelets' flags.
Writes nothing.`,
		Run: func(ctx context.Context, r *workflow.Run) error {
			a := adoptionOf(r)
			err := workflow.RunChecks(ctx, r, []workflow.Check{
				{ID: finding.CheckPrivileged, Run: workflow.CheckRoot},
				{ID: finding.CheckClusterRecord, Run: checkAdoptable}, // which the settings need
				{ID: finding.CheckProvider, Run: record.CheckProvider},
				{ID: finding.CheckWritable, Run: workflow.CheckWritable},
				{ID: finding.CheckCloudConfig, Run: manager.CheckCloudConfig},
				{ID: finding.CheckManifests, Run: manager.CheckManifests},
				{ID: finding.CheckImages, Run: manager.CheckImages},
			})
			if err != nil {
				return err
			}
			s, err := r.Settings(ctx)
			if err != nil {
				return err
			}
			if err := refuseOtherManagers(ctx, r.Env, s); err != nil {
				return err
			}
			if err := sayPools(ctx, r.Env, s); err != nil {
				return err
			}
			if err := refuseAdmission(ctx, r.Env); err != nil {
				return err
			}
			plan, err := a.plannedNodes(ctx, r)
			if err != nil {
				return err
			}
			if err := a.Check(plan); err != nil {
				return err
			}
			if err := a.examine(ctx, r.Env, s, plan); err != nil {
				return err
			}
			if err := showPlan(r.Env, plan); err != nil {
				return err
			}
			if err := fleet.RefuseProblems(plan, "them as they are, and the lifecycle off until they have followed"); err != nil {
				return err
			}
			err = r.Confirm(a.Yes, fmt.Sprintf("Set these nodes to external cloud mode, with provider %s as a %s?",
				s.Provider, s.Mode))
			if err != nil {
				return err
			}
			return a.openJournal(ctx, r, Adopt()[1:], plan)
		},
	}
}

// showPlan prints a table, and for programs an object for each node.
func showPlan(env *workflow.Env, plan []*fleet.Node) error {
	if objects := env.Objects(); objects != nil {
		for _, n := range plan {
			objects.Write(n.Line())
		}
		if err := objects.Close(); err != nil {
			return fmt.Errorf("show the plan: %w", err)
		}
	}
	w := table.New(env.Progress(), "NODE", "ROLE", "KUBELET", "ADDRESS", "PROVIDER ID", "FLAGS", "TO DO")
	for _, n := range plan {
		l := n.Line()
		w.Row(l.Node, l.Role, l.Kubelet, l.Address, cmp.Or(l.ProviderID, "none"), l.Flags, l.ToDo)
	}
	return w.Flush()
}
