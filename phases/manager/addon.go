package manager

import (
	"context"

	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/manifests/apply"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/templates"
)

// Addon applies the manager's workload, or removes it in mode StaticPod.
func Addon() workflow.Phase {
	return workflow.Phase{
		Name:   "addon",
		Shared: true,
		Short:  "Run what the scheduler places: a DaemonSet or Deployment, and the provider's agents",
		Long:   "Reads the profile and the settings. Writes the workload, which reaches the API server through the control-plane endpoint and so needs no kube-proxy, no DNS and no pod network; and in every mode the programs that some providers run on each node.",
		Only:   workflow.ManagedModes(),
		Run: func(ctx context.Context, r *workflow.Run) error {
			s, v, err := valuesWithFiles(ctx, r)
			if err != nil {
				return err
			}
			none := v.Mode == templates.StaticPod && len(s.Profile.Agents) == 0 && !s.Profile.NeedsApprover(v)
			if none && !r.Existing {
				return nil // where there is none, there is none to delete
			}
			if err := refuseNewerManager(ctx, r, s, v); err != nil {
				return err
			}
			if !none {
				if v.Endpoint, err = workflow.ControlPlaneEndpoint(ctx, r.Host); err != nil {
					return err
				}
			}
			objects, err := manifests.Addon(s.Profile, v)
			if err != nil {
				return err
			}
			return workflow.ApplySet(ctx, r.Env, apply.Addon, machine.AdminConf, objects)
		},
	}
}
