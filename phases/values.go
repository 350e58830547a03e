package phases

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/phases/upgrade/planner"
	"github.com/ccmadm/ccmadm/templates"
)

// valuesWithFiles are the settings, and the values with what the user's configuration gives the provider.
func valuesWithFiles(ctx context.Context, d *Data) (*Settings, templates.Values, error) {
	s, err := d.Settings(ctx)
	if err != nil {
		return nil, templates.Values{}, err
	}
	files, err := cloudFiles(ctx, d, s)
	if err == nil {
		err = refuseLostCredentials(d, s, files)
	}
	if err != nil {
		return nil, templates.Values{}, err
	}
	v, err := values(d, s, files)
	return s, v, err
}

// values gathers what the templates vary in. The cloud's files change them by their names and a digest.
func values(d *Data, s *Settings, cloudFiles map[string][]byte) (templates.Values, error) {
	v, err := namelessValues(d, s, cloudFiles)
	if err != nil {
		return v, err
	}
	v.ClusterName, err = clusterName(d, s)
	return v, err
}

// namelessValues are those that are known before there is a CA, from which the cluster may have its name.
func namelessValues(d *Data, s *Settings, cloudFiles map[string][]byte) (templates.Values, error) {
	if err := compatible(&s.CloudConfiguration, s.Profile); err != nil {
		return templates.Values{}, err
	}
	v := templates.Values{
		Mode:                templates.Mode(s.Mode),
		Version:             d.Version,
		Image:               s.ControllerManager.Image,
		ImageTag:            s.ControllerManager.Version,
		KubernetesVersion:   s.KubernetesVersion,
		ImageRepository:     s.ImageRepository,
		Routes:              s.WantsRoutes(),
		NodeLifecycle:       s.Lifecycle != v1alpha1.LifecycleOff && !d.holdLifecycle,
		PodSubnet:           s.PodSubnet,
		Files:               slices.Sorted(maps.Keys(cloudFiles)),
		ConfigHash:          manifests.ConfigHash(cloudFiles),
		NodeAgent:           s.wantsNodeAgent(),
		NodeAgentImage:      s.NodeAgent.Image,
		ControlPlaneVIP:     s.ControlPlaneVIP.Address,
		ServingCertificates: s.WantsServingCertificates(),
		ServingRanges:       strings.Join(s.ServingCertificates.AddressRanges, ","),
		ServingNames:        s.ServingCertificates.Names,
		Proxies:             s.Proxies,
		Env:                 s.ControllerManager.ExtraEnv,
		ExtraArgs:           s.ControllerManager.ExtraArgs,
	}
	if v.Routes && v.PodSubnet == "" {
		return templates.Values{}, finding.Usagef("routes: the cluster has no pod subnet whose routes provider %s could program", s.Profile.Name).
			WithHint("networking.podSubnet in the kubeadm configuration, or --pod-network-cidr, names it")
	}
	return v, nil
}

// image is the complete reference, for machines that join. In mode Manual it is the user's affair.
func image(d *Data, s *Settings) (string, error) {
	if s.Mode == v1alpha1.ModeManual {
		return s.ControllerManager.Image, nil
	}
	v, err := values(d, s, nil)
	if err != nil {
		return "", err
	}
	return s.Profile.ImageRef(v)
}

// imageBy is who has chosen the image. What the record has already stays whose it was: a newer ccmadm would choose
// another, and knows no more which one the former has chosen.
func imageBy(d *Data, s *Settings, image string) (v1alpha1.ImageBy, error) {
	switch said := s.ControllerManager; {
	case s.Mode == v1alpha1.ModeManual:
		return "", nil
	case d.ImageBy != "":
		return d.ImageBy, nil
	case said.Image == "" && said.Version == "":
		return v1alpha1.ImageByProfile, nil
	case d.Operation.Manager().By != "":
		return d.Operation.Manager().By, nil
	case s.Recorded == nil || s.Recorded.Configuration.ControllerManager.Image != image:
		return v1alpha1.ImageByUser, nil
	}
	profile, err := recordedProfile(s.Recorded)
	if err != nil {
		return "", err
	}
	return planner.ImageBy(profile, s.Recorded), nil
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
	if err := refuseCredentials(settings); err != nil {
		return err
	}
	if err := vipCompatible(settings, profile); err != nil {
		return err
	}
	if err := agentCompatible(settings, profile); err != nil {
		return err
	}
	if err := servingCompatible(settings, profile); err != nil {
		return err
	}
	if settings.WantsRoutes() && !profile.Has(templates.Routes) {
		return finding.Usagef("routes: provider %s programs no routes", profile.Name).
			WithHint("set routes to false and install a CNI plugin")
	}
	if mode := settings.Mode; mode != v1alpha1.ModeManual && !profile.Supports(templates.Mode(mode)) {
		return finding.Usagef("mode: provider %s runs as %s, not as %s", profile.Name, inWords(profile.Modes, "or"), mode).
			WithHint("--mode %s, or leave the mode out", profile.Modes[0])
	}
	return nil
}

// servingCompatible refuses what ccmadm does not bring, and what would approve nothing.
func servingCompatible(settings *v1alpha1.CloudConfiguration, profile *templates.Profile) error {
	switch {
	case settings.WantsServingCertificates() && settings.Mode == v1alpha1.ModeManual:
		return finding.Usagef("servingCertificates: in mode %s nothing of the provider is brought by ccmadm", settings.Mode).
			WithHint("ccmadm render --provider %s --serving-certificates --cluster-name NAME prints what to apply", profile.Name)
	case settings.WantsServingCertificates() && len(settings.ServingCertificates.AddressRanges) == 0 && !profile.ApprovesItself():
		return finding.Usagef("servingCertificates: with provider %s an address counts only within servingCertificates."+
			"addressRanges, and there are none", profile.Name).
			WithHint("name those of the machines in a CloudConfiguration: servingCertificates: {enabled: true, addressRanges: [192.0.2.0/24]}")
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
