package phases

import (
	"cmp"
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/templates"
)

// Settings is everything that a run goes by. It is resolved once and never changed.
type Settings struct {
	v1alpha1.CloudConfiguration
	// Profile is that of the provider.
	Profile *templates.Profile
	// OwnProfile is the text of the user's own profile; empty for a built-in one.
	OwnProfile string
	// PodSubnet is the cluster's, one of each family where it is dual-stack.
	PodSubnet string
	// KubernetesVersion is the cluster's, as v1.36.3. The cloud-controller-manager's release follows it.
	KubernetesVersion string
	// CertificatesDir is where the cluster's machines keep the CA.
	CertificatesDir string
	// ImageRepository is where kubeadm pulls the control plane's images from; empty for its default.
	ImageRepository string
	// Proxies are the proxy variables of the manager, NAME=VALUE.
	Proxies []string
	// moved are credentials that a record of an earlier release has in clear, by their keys in the Secret.
	moved map[string][]byte
	// Recorded is what was known already of the cluster; nil on a machine that makes one.
	Recorded *v1alpha1.Record
}

// resolve lays what the user said over what the cluster, or an earlier phase, has recorded.
func resolve(ctx context.Context, d *Data) (*Settings, error) {
	rec, err := recorded(ctx, d)
	if err != nil {
		return nil, err
	}
	if err := refuseOtherManager(d, rec); err != nil {
		return nil, err
	}
	s := &Settings{Recorded: rec}
	if rec != nil {
		known := &rec.Configuration
		if d.Living && saysOther(d.Said.Provider, known.Provider) {
			known = ofNoProvider(*known)
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
	if err := vipWhole(s.ControlPlaneVIP); err != nil {
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
	if d.Living && rec != nil {
		if err := refuseOtherLease(s); err != nil && !s.changesProvider() { // then the former one has ended before
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
func recorded(ctx context.Context, d *Data) (*v1alpha1.Record, error) {
	switch {
	case d.Living:
		rec, err := livingRecord(ctx, d)
		if err == nil && rec != nil {
			err = refuseChange(ctx, d, rec)
		}
		return rec, err
	case d.Role == kubeadm.RoleInit && d.Single:
		return phaseRecord(ctx, d)
	case d.Role == kubeadm.RoleInit:
		return clusterRecord(ctx, d)
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
func findProfile(d *Data, s *Settings) error {
	if s.Provider == v1alpha1.ProviderAuto {
		found, err := Detect(d.Machine)
		if err != nil {
			return err
		}
		s.Provider = found.Provider
	}
	where, text, err := s.ownProfile()
	if err != nil {
		return err
	}
	if text == "" {
		s.Profile, err = templates.Load(s.Provider)
	} else {
		s.Profile, err = parseProfile(where, text)
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

// ownProfile is the user's own profile and where it stands; empty where a built-in one is used.
func (s *Settings) ownProfile() (where, text string, err error) {
	path := s.CloudConfiguration.Profile
	if path == "" {
		if s.Recorded == nil || s.Recorded.Configuration.Provider != s.Provider {
			return "", "", nil
		}
		return "the cluster's record", s.Recorded.Profile, nil
	}
	data, err := readFile("profile", path)
	if err != nil {
		return "", "", err
	}
	if strings.TrimSpace(string(data)) == "" {
		return "", "", finding.Usagef("read profile %s: it is empty", path)
	}
	return path, string(data), nil
}

func parseProfile(where, text string) (*templates.Profile, error) {
	p, err := templates.Parse(where, []byte(text))
	if err != nil {
		return nil, finding.Usagef("%w", err).
			WithHint("docs/reference/profile.md describes every field; `ccmadm provider show NAME -o yaml` prints a built-in one")
	}
	return p, nil
}

// findVersion takes the cluster's version over that of the installed kubeadm, which may be newer.
func findVersion(ctx context.Context, d *Data, s *Settings) error {
	if s.KubernetesVersion != "" { // the operation has said
		return nil
	}
	said := d.KubeadmFile.KubernetesVersion()
	if s.Recorded != nil && s.Recorded.KubernetesVersion != "" {
		said = s.Recorded.KubernetesVersion
	}
	if d.Living {
		live, err := liveVersion(ctx, d)
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

// KnownProvider refuses names that are no profile's, where the provider has no profile of its own.
func KnownProvider(c *v1alpha1.CloudConfiguration) field.ErrorList {
	if c.Provider == "" || c.Provider == v1alpha1.ProviderAuto || c.Profile != "" {
		return nil
	}
	if _, err := templates.Source(c.Provider); err != nil { // its text is not parsed here: that is done once, in resolve
		return field.ErrorList{field.Invalid(field.NewPath("provider"), c.Provider, err.Error())}
	}
	return nil
}

// autoMode is a static pod where the provider can run as one: it needs no scheduler.
func autoMode(p *templates.Profile) v1alpha1.Mode {
	if p.Supports(templates.StaticPod) {
		return v1alpha1.ModeStaticPod
	}
	return v1alpha1.Mode(p.Modes[0])
}

// recordedProfile is that of the cluster's provider.
func recordedProfile(r *v1alpha1.Record) (*templates.Profile, error) {
	if r.Profile != "" {
		return templates.Parse("the cluster's record", []byte(r.Profile))
	}
	return templates.Load(r.Configuration.Provider)
}
