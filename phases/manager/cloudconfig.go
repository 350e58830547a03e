package manager

import (
	"context"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/manifests/apply"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// CloudConfig applies the Secret with the provider's files and, with an inventory, the ConfigMap that has it.
func CloudConfig() workflow.Phase {
	return workflow.Phase{
		Name:   "cloud-config",
		Shared: true,
		Short:  "Store the provider's configuration and credentials",
		Long: `Reads the files and environment variables that the configuration names.
Writes the Secret kube-system/` + v1alpha1.CloudConfigName + `, whose values are never printed, and with --inventory the ConfigMap
that all control planes read the list of machines from. There a list that differs must have a higher serial.`,
		Only: workflow.ManagedModes(),
		Run: func(ctx context.Context, r *workflow.Run) error {
			s, err := r.Settings(ctx)
			if err != nil {
				return err
			}
			files, err := CloudFiles(ctx, r, s)
			if err != nil {
				return err
			}
			if len(files) == 0 {
				r.Sayf("the provider needs no configuration")
				return nil
			}
			objects, err := manifests.CloudConfigSecret(s.Profile, files)
			if err != nil {
				return err
			}
			if err := applyInventory(ctx, r, s); err != nil {
				return err
			}
			return workflow.ApplySet(ctx, r.Env, apply.CloudConfig, workflow.BootstrapConf(r.Machine), objects)
		},
	}
}
