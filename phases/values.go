package phases

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/templates"
)

// valuesWithFiles is values with what the user's configuration gives the provider.
func (d *Data) valuesWithFiles(ctx context.Context) (*templates.Profile, templates.Values, error) {
	files, err := d.cloudFiles(ctx)
	if err != nil {
		return nil, templates.Values{}, err
	}
	return d.values(ctx, files)
}

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
	minor, err := d.kubeadmVersion()
	if err != nil {
		return nil, templates.Values{}, err
	}
	v := templates.Values{
		Mode:              templates.Mode(settings.Mode),
		Version:           d.Version,
		Image:             settings.ControllerManager.Image,
		ImageTag:          settings.ControllerManager.Version,
		KubernetesVersion: "v" + minor.String(),
		Routes:            settings.WantsRoutes(),
		NodeLifecycle:     settings.Lifecycle != v1alpha1.LifecycleOff,
		Files:             slices.Sorted(maps.Keys(cloudFiles)),
		ConfigHash:        manifests.ConfigHash(cloudFiles),
		Env:               append(proxySettings(d.Env), settings.ControllerManager.ExtraEnv...),
		ExtraArgs:         settings.ControllerManager.ExtraArgs,
	}
	if v.PodSubnet, err = d.podSubnet(ctx); err != nil {
		return nil, templates.Values{}, err
	}
	if v.Routes && v.PodSubnet == "" {
		return nil, templates.Values{}, finding.Usagef("routes: the cluster has no pod subnet whose routes provider %s could program", profile.Name).
			WithHint("networking.podSubnet in the kubeadm configuration, or --pod-network-cidr, names it")
	}
	if v.ClusterName, err = d.clusterName(settings); err != nil {
		return nil, templates.Values{}, err
	}
	return profile, v, nil
}

// proxySettings are those of this machine's environment, under the names that kubeadm passes on to its own pods.
func proxySettings(env func(string) string) []string {
	var list []string
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"} {
		if value := env(name); value != "" {
			list = append(list, name+"="+value)
		}
	}
	return list
}

// image is the complete reference, for machines that join. In mode Manual it is the user's affair.
func (d *Data) image(ctx context.Context, settings *v1alpha1.CloudConfiguration) (string, error) {
	if settings.Mode == v1alpha1.ModeManual {
		return settings.ControllerManager.Image, nil
	}
	profile, values, err := d.values(ctx, nil)
	if err != nil {
		return "", err
	}
	return profile.ImageRef(values)
}

// compatible refuses settings that the profile has no answer to.
func compatible(settings *v1alpha1.CloudConfiguration, profile *templates.Profile) error {
	if !profile.Has(templates.Nodes) {
		return finding.Usagef("provider %s serves %s only: nothing of it takes the uninitialized taint away, so a cluster must not be in external mode for it alone", profile.Name, inWords(profile.Features, "and")).
			WithHint("init with another provider, then beside it: ccmadm render --provider %s --cluster-name NAME | kubectl apply --server-side -f -", profile.Name)
	}
	for _, name := range profile.UserArgs {
		if !slices.ContainsFunc(settings.ControllerManager.ExtraArgs, func(arg string) bool { return strings.HasPrefix(arg, name+"=") }) && settings.Mode != v1alpha1.ModeManual {
			return finding.Usagef("controllerManager.extraArgs: provider %s needs %s=VALUE", profile.Name, name).
				WithHint("a document in the file of --config: {apiVersion: %s, kind: %s, provider: %s, controllerManager: {image: IMAGE, extraArgs: [%s=VALUE]}}", v1alpha1.APIVersion, v1alpha1.ConfigKind, profile.Name, name)
		}
	}
	if settings.WantsRoutes() && !profile.Has(templates.Routes) {
		return finding.Usagef("routes: provider %s programs no routes", profile.Name).WithHint("set routes to false and install a CNI plugin")
	}
	if mode := settings.Mode; mode != v1alpha1.ModeManual && !profile.Supports(templates.Mode(mode)) {
		return finding.Usagef("mode: provider %s runs as %s, not as %s", profile.Name, inWords(profile.Modes, "or"), mode).
			WithHint("--mode %s, or leave the mode out", profile.Modes[0])
	}
	return nil
}

// inWords is for people: a, b and c.
func inWords[T ~string](values []T, and string) string {
	var b strings.Builder
	for i, value := range values {
		switch {
		case i > 0 && i == len(values)-1:
			b.WriteString(" " + and + " ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(string(value))
	}
	return b.String()
}

// controlPlaneURL is where pods of ours reach the API server: kubeadm writes the control-plane endpoint into the
// administrator's kubeconfig. The service's virtual address would need kube-proxy first.
func controlPlaneURL(kubeconfigPath string) (string, error) {
	config, err := clientcmd.LoadFromFile(kubeconfigPath)
	if errors.Is(err, fs.ErrNotExist) {
		return "", finding.Errorf("find the control-plane endpoint: %w", err).
			WithHint("this phase comes after `ccmadm init phase kubeadm-control-plane`")
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
