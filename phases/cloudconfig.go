package phases

import (
	"context"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/manifests/apply"
)

func cloudConfig() Phase {
	return Phase{
		Name:   "cloud-config",
		Shared: true,
		Short:  "Store the provider's configuration and credentials",
		Long: `Reads the files and environment variables that the configuration names.
Writes the Secret kube-system/` + v1alpha1.CloudConfigName + `, whose values are never printed, and with --inventory the ConfigMap
that all control planes read the list of machines from. There a list that differs must have a higher serial.`,
		Only: managedModes(),
		Run: func(ctx context.Context, d *Data) error {
			s, err := d.Settings(ctx)
			if err != nil {
				return err
			}
			files, err := cloudFiles(ctx, d, s)
			if err != nil {
				return err
			}
			if len(files) == 0 {
				d.Sayf("the provider needs no configuration")
				return nil
			}
			objects, err := manifests.CloudConfigSecret(s.Profile, files)
			if err != nil {
				return err
			}
			if err := applyInventory(ctx, d, s); err != nil {
				return err
			}
			return applySet(ctx, d, apply.CloudConfig, bootstrapConf(d.Machine), objects)
		},
	}
}
