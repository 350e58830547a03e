package phases

import (
	"context"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/templates"
)

func rbac() Phase {
	return Phase{
		Name:  "rbac",
		Short: "Give the cloud-controller-manager its permissions",
		Long:  "Reads the profile. Writes a ClusterRole, a Role and their bindings, and a ServiceAccount where the cloud-controller-manager is not a static pod. No permission is wider than the profile says.",
		Only:  []v1alpha1.Mode{v1alpha1.ModeStaticPod, v1alpha1.ModeDaemonSet, v1alpha1.ModeDeployment},
		Run: func(ctx context.Context, d *Data) error {
			profile, values, err := d.valuesWithFiles(ctx)
			if err != nil {
				return err
			}
			objects, err := manifests.RBAC(profile, values)
			if err != nil {
				return err
			}
			return d.apply(ctx, bootstrapConf(), objects)
		},
	}
}

func cloudConfig() Phase {
	return Phase{
		Name:  "cloud-config",
		Short: "Store the provider's configuration and credentials",
		Long:  "Reads the files and environment variables that the configuration names. Writes the Secret kube-system/" + v1alpha1.CloudConfigName + ". Its values are never printed.",
		Only:  []v1alpha1.Mode{v1alpha1.ModeStaticPod, v1alpha1.ModeDaemonSet, v1alpha1.ModeDeployment},
		Run: func(ctx context.Context, d *Data) error {
			files, err := d.cloudFiles(ctx)
			if err != nil {
				return err
			}
			if len(files) == 0 {
				d.Sayf("the provider needs no configuration")
				return nil
			}
			profile, err := d.Profile(ctx)
			if err != nil {
				return err
			}
			objects, err := manifests.CloudConfigSecret(profile, files)
			if err != nil {
				return err
			}
			return d.apply(ctx, adminConf, objects)
		},
	}
}

func addon() Phase {
	return Phase{
		Name:  "addon",
		Short: "Run what the scheduler places: a DaemonSet or Deployment, and the provider's agents",
		Long:  "Reads the profile and the settings. Writes the workload, which reaches the API server through the control-plane endpoint and so needs no kube-proxy, no DNS and no pod network; and in every mode the programs that some providers run on each node.",
		Only:  []v1alpha1.Mode{v1alpha1.ModeStaticPod, v1alpha1.ModeDaemonSet, v1alpha1.ModeDeployment},
		Run: func(ctx context.Context, d *Data) error {
			profile, values, err := d.valuesWithFiles(ctx)
			if err != nil {
				return err
			}
			if values.Mode == templates.StaticPod && len(profile.Agents) == 0 {
				return nil
			}
			if values.Endpoint, err = d.endpointForPods(); err != nil {
				return err
			}
			objects, err := manifests.Addon(profile, values)
			if err != nil {
				return err
			}
			return d.apply(ctx, adminConf, objects)
		},
	}
}

// endpointForPods is the control-plane endpoint; a dry run before there is a cluster knows only this machine's.
func (d *Data) endpointForPods() (string, error) {
	path := adminConf
	if d.Kubeconfig != "" {
		path = d.Kubeconfig
	}
	url, err := controlPlaneURL(path)
	if err != nil && d.DryRun {
		return "https://" + d.localEndpoint(), nil
	}
	return url, err
}
