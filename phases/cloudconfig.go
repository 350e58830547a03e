package phases

import (
	"context"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/manifests/apply"
	"github.com/ccmadm/ccmadm/phases/machine"
)

func cloudConfig() Phase {
	return Phase{
		Name:  "cloud-config",
		Short: "Store the provider's configuration and credentials",
		Long:  "Reads the files and environment variables that the configuration names. Writes the Secret kube-system/" + v1alpha1.CloudConfigName + ". Its values are never printed.",
		Only:  managedModes(),
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
			return applySet(ctx, d, apply.CloudConfig, machine.AdminConf, objects)
		},
	}
}
