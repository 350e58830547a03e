package phases

import (
	"context"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/manifests/apply"
	"github.com/ccmadm/ccmadm/templates"
)

func addon() Phase {
	return Phase{
		Name:   "addon",
		Shared: true,
		Short:  "Run what the scheduler places: a DaemonSet or Deployment, and the provider's agents",
		Long:   "Reads the profile and the settings. Writes the workload, which reaches the API server through the control-plane endpoint and so needs no kube-proxy, no DNS and no pod network; and in every mode the programs that some providers run on each node.",
		Only:   managedModes(),
		Run: func(ctx context.Context, d *Data) error {
			s, v, err := valuesWithFiles(ctx, d)
			if err != nil {
				return err
			}
			if v.Mode == templates.StaticPod && len(s.Profile.Agents) == 0 && !s.Profile.NeedsApprover(v) && !d.Living {
				return nil // where there is none, there is none to delete
			}
			if err := refuseNewerManager(ctx, d, s, v); err != nil {
				return err
			}
			if v.Endpoint, err = endpointForPods(d); err != nil {
				return err
			}
			objects, err := manifests.Addon(s.Profile, v)
			if err != nil {
				return err
			}
			return applySet(ctx, d, apply.Addon, machine.AdminConf, objects)
		},
	}
}

// managedModes are those in which ccmadm brings the cloud-controller-manager.
func managedModes() []v1alpha1.Mode {
	return []v1alpha1.Mode{v1alpha1.ModeStaticPod, v1alpha1.ModeDaemonSet, v1alpha1.ModeDeployment}
}
