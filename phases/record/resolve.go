package record

import (
	"cmp"
	"context"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/templates"
)

// resolve lays what the user said over what the cluster, or an earlier phase, has recorded.
func resolve(ctx context.Context, r *workflow.Run) (*settings.Settings, error) {
	rec, err := recorded(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := refuseOtherManager(r, rec); err != nil {
		return nil, err
	}
	s := &settings.Settings{Recorded: rec}
	if rec != nil {
		known := &rec.Configuration
		if r.Existing && settings.SaysOther(r.Said.Provider, known.Provider) {
			known = settings.OfNoProvider(*known)
		}
		s.Override(known)
		s.PodSubnet, s.CertificatesDir, s.ImageRepository = rec.PodSubnet, rec.CertificatesDir, rec.ImageRepository
		if err := keepOwnNodeIP(r, s); err != nil {
			return nil, err
		}
	}
	said := saidOf(r, rec)
	s.Override(&said)
	s.Default()
	moveCredentials(r, s)
	if err := settings.VIPWhole(s.ControlPlaneVIP); err != nil {
		return nil, err
	}
	if rec == nil || r.Single && r.Role == kubeadm.RoleInit && r.KubeadmFile.HasConfiguration(kubeadm.RoleInit) {
		s.PodSubnet, s.CertificatesDir, s.ImageRepository = r.KubeadmFile.PodSubnet(), r.KubeadmFile.CertificatesDir(), r.KubeadmFile.ImageRepository()
	}
	if s.CertificatesDir == "" {
		s.CertificatesDir = machine.PKIDir
	}
	if err := findProfile(r, s); err != nil {
		return nil, err
	}
	r.Operation.Amend(s, rec)
	if r.Existing && rec != nil {
		if err := refuseOtherLease(s); err != nil && !s.ChangesProvider() { // then the former one has ended before
			return nil, err
		}
	}
	if s.Proxies, err = proxies(ctx, r, s); err != nil {
		return nil, err
	}
	return s, findVersion(ctx, r.Host, s)
}

// recorded is what is known already of the cluster that this machine is in or joins: nothing, on a machine that makes
// one.
func recorded(ctx context.Context, r *workflow.Run) (*state.Record, error) {
	rec, err := findRecord(ctx, r)
	if err != nil || rec == nil || rec.Newer == "" || r.Role == kubeadm.RoleJoin && !r.Existing { // what joins changes no other machine
		return rec, err
	}
	return nil, finding.Refusedf("go by the cluster's record, which ccmadm %s has written: %s", cmp.Or(rec.WrittenBy, "of another version"), rec.Newer).
		WithHint("this is ccmadm %s, which would take away what those fields say: run the version that has written them, or a newer one. "+
			"Nothing was changed", r.Version)
}

func findRecord(ctx context.Context, r *workflow.Run) (*state.Record, error) {
	switch {
	case r.Existing:
		rec, err := ExistingRecord(ctx, r)
		if err == nil && rec != nil {
			err = refuseChange(ctx, r, rec)
		}
		return rec, err
	case r.Role == kubeadm.RoleInit && r.Single:
		return phaseRecord(ctx, r)
	case r.Role == kubeadm.RoleInit:
		return ClusterRecord(ctx, r)
	case !r.Single:
		return joinedRecord(ctx, r)
	}
	rec, err := phaseRecord(ctx, r)
	if err == nil && rec == nil && r.DryRun && r.KubeadmFile.CanDiscover() {
		return joinedRecord(ctx, r)
	}
	return rec, err
}

// findProfile replaces what is left to be found out: the provider "auto", the name of the user's own profile, the mode.
func findProfile(r *workflow.Run, s *settings.Settings) error {
	if s.Provider == config.ProviderAuto {
		found, err := settings.Detect(r.Machine)
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
	if s.Mode == config.ModeAuto {
		s.Mode = r.Operation.Mode(s.Profile)
	}
	return nil
}

// findVersion takes the cluster's version over that of the installed kubeadm, which may be newer.
func findVersion(ctx context.Context, h *workflow.Host, s *settings.Settings) error {
	if s.KubernetesVersion != "" { // the operation has said
		return nil
	}
	said := h.KubeadmFile.KubernetesVersion()
	if s.Recorded != nil && s.Recorded.KubernetesVersion != "" {
		said = s.Recorded.KubernetesVersion
	}
	if h.Existing {
		live, err := LiveVersion(ctx, h.Env)
		if err != nil {
			return err
		}
		said = cmp.Or(live, said) // the record lags behind an upgrade until it is applied
	}
	if v, err := version.ParseSemantic(said); err == nil {
		s.KubernetesVersion = "v" + v.String()
		return nil
	}
	v, err := h.KubeadmVersion(ctx) // kubeadm takes its own version for none, and for a label such as stable-1.36
	if err != nil {
		return err
	}
	s.KubernetesVersion = "v" + v.String()
	return nil
}
