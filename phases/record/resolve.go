package record

import (
	"cmp"
	"context"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/templates"
)

// resolve lays what the user said over what the cluster, or an earlier phase, has recorded.
func resolve(ctx context.Context, d *workflow.Data) (*settings.Settings, error) {
	rec, err := recorded(ctx, d)
	if err != nil {
		return nil, err
	}
	if err := refuseOtherManager(d, rec); err != nil {
		return nil, err
	}
	s := &settings.Settings{Recorded: rec}
	if rec != nil {
		known := &rec.Configuration
		if d.Existing && settings.SaysOther(d.Said.Provider, known.Provider) {
			known = settings.OfNoProvider(*known)
		}
		s.Override(known)
		s.PodSubnet, s.CertificatesDir, s.ImageRepository = rec.PodSubnet, rec.CertificatesDir, rec.ImageRepository
		if err := keepOwnNodeIP(d, s); err != nil {
			return nil, err
		}
	}
	said := saidOf(d, rec)
	s.Override(&said)
	s.Default()
	moveCredentials(d, s)
	if err := settings.VIPWhole(s.ControlPlaneVIP); err != nil {
		return nil, err
	}
	if rec == nil || d.Single && d.Role == kubeadm.RoleInit && d.KubeadmFile.HasConfiguration(kubeadm.RoleInit) {
		s.PodSubnet, s.CertificatesDir, s.ImageRepository = d.KubeadmFile.PodSubnet(), d.KubeadmFile.CertificatesDir(), d.KubeadmFile.ImageRepository()
	}
	if s.CertificatesDir == "" {
		s.CertificatesDir = machine.PKIDir
	}
	if err := findProfile(d, s); err != nil {
		return nil, err
	}
	d.Operation.Amend(s, rec)
	if d.Existing && rec != nil {
		if err := refuseOtherLease(s); err != nil && !s.ChangesProvider() { // then the former one has ended before
			return nil, err
		}
	}
	if s.Proxies, err = proxies(ctx, d, s); err != nil {
		return nil, err
	}
	return s, findVersion(ctx, d, s)
}

// recorded is what is known already of the cluster that this machine is in or joins: nothing, on a machine that makes
// one.
func recorded(ctx context.Context, d *workflow.Data) (*v1alpha1.Record, error) {
	switch {
	case d.Existing:
		rec, err := ExistingRecord(ctx, d)
		if err == nil && rec != nil {
			err = refuseChange(ctx, d, rec)
		}
		return rec, err
	case d.Role == kubeadm.RoleInit && d.Single:
		return phaseRecord(ctx, d)
	case d.Role == kubeadm.RoleInit:
		return ClusterRecord(ctx, d)
	case !d.Single:
		return joinedRecord(ctx, d)
	}
	rec, err := phaseRecord(ctx, d)
	if err == nil && rec == nil && d.DryRun && d.KubeadmFile.CanDiscover() {
		return joinedRecord(ctx, d)
	}
	return rec, err
}

// findProfile replaces what is left to be found out: the provider "auto", the name of the user's own profile, the mode.
func findProfile(d *workflow.Data, s *settings.Settings) error {
	if s.Provider == v1alpha1.ProviderAuto {
		found, err := settings.Detect(d.Machine)
		if err != nil {
			return err
		}
		s.Provider = found.Provider
	}
	where, text, err := s.ProfileText()
	if err != nil {
		return err
	}
	if text == "" {
		s.Profile, err = templates.Load(s.Provider)
	} else {
		s.Profile, err = settings.ParseProfile(where, text)
	}
	if err != nil {
		return err
	}
	if s.Provider != "" && s.Provider != s.Profile.Name {
		return finding.Usagef("provider %q: the profile %s is that of %q", s.Provider, s.CloudConfiguration.Profile, s.Profile.Name).
			WithHint("leave --provider out")
	}
	s.Provider, s.OwnProfile = s.Profile.Name, text
	if s.Mode == v1alpha1.ModeAuto {
		s.Mode = d.Operation.Mode(s.Profile)
	}
	return nil
}

// findVersion takes the cluster's version over that of the installed kubeadm, which may be newer.
func findVersion(ctx context.Context, d *workflow.Data, s *settings.Settings) error {
	if s.KubernetesVersion != "" { // the operation has said
		return nil
	}
	said := d.KubeadmFile.KubernetesVersion()
	if s.Recorded != nil && s.Recorded.KubernetesVersion != "" {
		said = s.Recorded.KubernetesVersion
	}
	if d.Existing {
		live, err := LiveVersion(ctx, d)
		if err != nil {
			return err
		}
		said = cmp.Or(live, said) // the record lags behind an upgrade until it is applied
	}
	if v, err := version.ParseSemantic(said); err == nil {
		s.KubernetesVersion = "v" + v.String()
		return nil
	}
	v, err := d.KubeadmVersion(ctx) // kubeadm takes its own version for none, and for a label such as stable-1.36
	if err != nil {
		return err
	}
	s.KubernetesVersion = "v" + v.String()
	return nil
}
