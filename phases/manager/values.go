package manager

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/upgrade/planner"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/templates"
)

// valuesWithFiles are the settings, and the values with what the user's configuration gives the provider.
func valuesWithFiles(ctx context.Context, r *workflow.Run) (*settings.Settings, templates.Values, error) {
	s, err := r.Settings(ctx)
	if err != nil {
		return nil, templates.Values{}, err
	}
	files, err := CloudFiles(ctx, r, s)
	if err == nil {
		err = record.RefuseLostCredentials(r.Host, s, files)
	}
	if err != nil {
		return nil, templates.Values{}, err
	}
	v, err := values(r.Host, s, files)
	return s, v, err
}

// values gathers what the templates vary in. The cloud's files change them by their names and a digest.
func values(h *workflow.Host, s *settings.Settings, cloudFiles map[string][]byte) (templates.Values, error) {
	v, err := NamelessValues(h.Env, s, cloudFiles)
	if err != nil {
		return v, err
	}
	v.ClusterName, err = record.ClusterName(h, s)
	return v, err
}

// NamelessValues are those that are known before there is a CA, from which the cluster may have its name.
func NamelessValues(env *workflow.Env, s *settings.Settings, cloudFiles map[string][]byte) (templates.Values, error) {
	if err := settings.Compatible(&s.CloudConfiguration, s.Profile); err != nil {
		return templates.Values{}, err
	}
	v := templates.Values{
		Mode:                templates.Mode(s.Mode),
		Version:             env.Version,
		Image:               s.ControllerManager.Image,
		ImageTag:            s.ControllerManager.Version,
		KubernetesVersion:   s.KubernetesVersion,
		ImageRepository:     s.ImageRepository,
		Routes:              s.WantsRoutes(),
		NodeLifecycle:       s.Lifecycle != config.LifecycleOff && !s.LifecycleHeld,
		PodSubnet:           s.PodSubnet,
		Files:               slices.Sorted(maps.Keys(cloudFiles)),
		ConfigHash:          manifests.ConfigHash(cloudFiles),
		NodeAgent:           s.WantsNodeAgent(),
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
func image(h *workflow.Host, s *settings.Settings) (string, error) {
	if s.Mode == config.ModeManual {
		return s.ControllerManager.Image, nil
	}
	v, err := values(h, s, nil)
	if err != nil {
		return "", err
	}
	return s.Profile.ImageRef(v)
}

// ImageBy is who has chosen the image. What the record has already stays whose it was: a newer ccmadm would choose
// another, and knows no more which one the former has chosen.
func ImageBy(r *workflow.Run, s *settings.Settings, image string) (state.ImageBy, error) {
	switch said := s.ControllerManager; {
	case s.Mode == config.ModeManual:
		return "", nil
	case r.ImageBy != "":
		return r.ImageBy, nil
	case said.Image == "" && said.Version == "":
		return state.ImageByProfile, nil
	case r.Operation.Manager().By != "":
		return r.Operation.Manager().By, nil
	case s.Recorded == nil || s.Recorded.Configuration.ControllerManager.Image != image:
		return state.ImageByUser, nil
	}
	profile, err := settings.RecordedProfile(s.Recorded)
	if err != nil {
		return "", err
	}
	return planner.ImageBy(profile, s.Recorded), nil
}
