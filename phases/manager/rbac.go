package manager

import (
	"context"

	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/manifests/apply"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// RBAC applies the manager's permissions.
func RBAC() workflow.Phase {
	return workflow.Phase{
		Name:   "rbac",
		Shared: true,
		Short:  "Give the cloud-controller-manager its permissions",
		Long: `Reads the profile. Writes a ClusterRole, a Role and their bindings, and a ServiceAccount where the cloud-controller-manager
is not a static pod. No permission is wider than the profile says. For a provider with load balancers of ours, also an
admission policy that keeps ports of the Nodes from Services that have their addresses.`,
		Only: workflow.ManagedModes(),
		Run: func(ctx context.Context, r *workflow.Run) error {
			s, err := r.Settings(ctx)
			if err != nil {
				return err
			}
			former, err := record.Established(ctx, r)
			if former && err == nil {
				former, err = formerManager(ctx, r.Host, s)
			}
			if err != nil {
				return err
			}
			return applyRBAC(ctx, r, former)
		},
	}
}

// applyRBAC gives the permissions, while there is a former manager of another kind to that one, too.
func applyRBAC(ctx context.Context, r *workflow.Run, former bool) error {
	s, v, err := valuesWithFiles(ctx, r)
	if err != nil {
		return err
	}
	v.Handover = former
	objects, err := manifests.RBAC(s.Profile, v)
	if err != nil {
		return err
	}
	return workflow.ApplySet(ctx, r.Env, apply.RBAC, workflow.BootstrapConf(r.Machine), objects)
}
