package phases

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/templates"
)

// values gathers what the templates vary in.
func (d *Data) values(ctx context.Context, cloudFiles map[string][]byte) (*templates.Profile, templates.Values, error) {
	settings, err := d.Settings(ctx)
	if err != nil {
		return nil, templates.Values{}, err
	}
	profile, err := d.Profile(ctx)
	if err != nil {
		return nil, templates.Values{}, err
	}
	if err := compatible(settings, profile); err != nil {
		return nil, templates.Values{}, err
	}
	_, hasConfig := cloudFiles[profile.Config.File]
	v := templates.Values{
		Mode:          templates.Mode(settings.Mode),
		Version:       d.Version,
		Image:         settings.ControllerManager.Image,
		Routes:        settings.Routes,
		NodeLifecycle: settings.Lifecycle != LifecycleOff,
		CloudConfig:   hasConfig,
		Credentials:   !hasConfig && len(cloudFiles) > 0,
		ConfigHash:    manifests.ConfigHash(cloudFiles),
		ExtraArgs:     settings.ControllerManager.ExtraArgs,
	}
	if v.PodSubnet, err = d.podSubnet(ctx); err != nil {
		return nil, templates.Values{}, err
	}
	if v.ClusterName, err = d.clusterName(settings); err != nil {
		return nil, templates.Values{}, err
	}
	if v.Image, err = d.image(profile, settings); err != nil {
		return nil, templates.Values{}, err
	}
	return profile, v, nil
}

// image is the complete reference. The tag follows ccmadm's version unless the settings name one.
func (d *Data) image(profile *templates.Profile, settings *CloudConfiguration) (string, error) {
	if settings.ControllerManager.Image != "" {
		return settings.ControllerManager.Image, nil
	}
	if tag := settings.ControllerManager.Version; tag != "" {
		return profile.Image.Repository + ":" + tag, nil
	}
	return profile.ImageRef(templates.Values{Version: d.Version})
}

// compatible refuses settings that the profile has no answer to.
func compatible(settings *CloudConfiguration, profile *templates.Profile) error {
	if settings.Routes && !profile.Routes {
		return usagef("routes: provider %s programs no routes", profile.Name).withHint("set routes to false and install a CNI plugin")
	}
	if mode := settings.Mode; mode != ModeManual && !profile.Supports(templates.Mode(mode)) {
		return usagef("mode: provider %s runs as %v, not as %s", profile.Name, profile.Modes, mode)
	}
	return nil
}

// controlPlaneURL is where pods of ours reach the API server: kubeadm writes the control-plane endpoint into the
// administrator's kubeconfig. The service's virtual address would need kube-proxy first.
func controlPlaneURL(kubeconfigPath string) (string, error) {
	config, err := clientcmd.LoadFromFile(kubeconfigPath)
	if errors.Is(err, fs.ErrNotExist) {
		return "", (&Error{Code: ExitError, Err: fmt.Errorf("find the control-plane endpoint: %w", err)}).
			withHint("this phase comes after `ccmadm init phase kubeadm-control-plane`")
	}
	if err != nil {
		return "", fmt.Errorf("find the control-plane endpoint: %w", err)
	}
	context := config.Contexts[config.CurrentContext]
	if context == nil || config.Clusters[context.Cluster] == nil {
		return "", fmt.Errorf("find the control-plane endpoint: %s has no current cluster", kubeconfigPath)
	}
	return config.Clusters[context.Cluster].Server, nil
}
