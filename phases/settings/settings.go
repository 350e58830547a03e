package settings

import (
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/templates"
)

// ChangesProvider tells whether the cluster's record is of another provider than the one that this run brings.
func (s *Settings) ChangesProvider() bool {
	return s.Recorded != nil && s.Recorded.Configuration.Provider != s.Provider
}

// FormerProfile is that of the provider from which this run changes; nil: it changes none.
func (s *Settings) FormerProfile() (*templates.Profile, error) {
	if !s.ChangesProvider() {
		return nil, nil
	}
	return RecordedProfile(s.Recorded)
}

// SaysOther tells whether another provider was said than a cluster has.
func SaysOther(said, known string) bool {
	return said != "" && said != config.ProviderAuto && said != known
}

// OfNoProvider is what of a cluster's settings holds with any provider.
func OfNoProvider(c config.CloudConfiguration) *config.CloudConfiguration {
	c.Provider, c.Profile, c.Inventory = "", "", ""
	c.ControllerManager, c.CloudConfig, c.Credentials = config.ControllerManager{}, config.CloudConfigFile{}, nil
	c.Routes, c.NodeAgent.Enabled, c.NodeAgent.Image = nil, nil, ""
	c.ServingCertificates = config.ServingCertificates{}
	return &c
}

// TagOf is the tag of a complete image reference.
func TagOf(image string) string {
	name := image[strings.LastIndex(image, "/")+1:]
	name, _, _ = strings.Cut(name, "@")
	_, tag, _ := strings.Cut(name, ":")
	return tag
}

// ReadFile reads a file of the user's.
func ReadFile(what, path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, finding.Usagef("read %s: %w", what, err)
	}
	return data, nil
}

// Settings is everything that a run goes by. It is resolved once; only adopt and leave change it, in LifecycleHeld.
type Settings struct {
	config.CloudConfiguration
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
	// Moved are credentials that a record of an earlier release has in clear, by their keys in the Secret.
	Moved map[string][]byte
	// LifecycleHeld keeps the manager from deleting Nodes in a phase of adopt or leave, whatever the settings say.
	LifecycleHeld bool
	// Recorded is what was known already of the cluster; nil on a machine that makes one.
	Recorded *state.Record
}

// ProfileText is the user's own profile and where it stands; empty where a built-in one is used.
func (s *Settings) ProfileText() (where, text string, err error) {
	path := s.CloudConfiguration.Profile
	if path == "" {
		if s.Recorded == nil || s.Recorded.Configuration.Provider != s.Provider {
			return "", "", nil
		}
		return "the cluster's record", s.Recorded.Profile, nil
	}
	data, err := ReadFile("profile", path)
	if err != nil {
		return "", "", err
	}
	if strings.TrimSpace(string(data)) == "" {
		return "", "", finding.Usagef("read profile %s: it is empty", path)
	}
	return path, string(data), nil
}

// ParseProfile parses the user's own profile. Where names it in errors.
func ParseProfile(where, text string) (*templates.Profile, error) {
	p, err := templates.Parse(where, []byte(text))
	if err != nil {
		return nil, finding.Usagef("%w", err).
			WithHint("docs/reference/profile.md describes every field; `ccmadm provider show NAME -o yaml` prints a built-in one")
	}
	return p, nil
}

// KnownProvider refuses names that are no profile's, where the provider has no profile of its own.
func KnownProvider(c *config.CloudConfiguration) field.ErrorList {
	if c.Provider == "" || c.Provider == config.ProviderAuto || c.Profile != "" {
		return nil
	}
	if _, err := templates.Source(c.Provider); err != nil { // its text is not parsed here: that is done once, in resolve
		return field.ErrorList{field.Invalid(field.NewPath("provider"), c.Provider, err.Error())}
	}
	return nil
}

// AutoMode is a static pod where the provider can run as one: it needs no scheduler.
func AutoMode(p *templates.Profile) config.Mode {
	if p.Supports(templates.StaticPod) {
		return config.ModeStaticPod
	}
	return config.Mode(p.Modes[0])
}

// RecordedProfile is that of the cluster's provider.
func RecordedProfile(r *state.Record) (*templates.Profile, error) {
	if r.Profile != "" {
		return templates.Parse("the cluster's record", []byte(r.Profile))
	}
	return templates.Load(r.Configuration.Provider)
}
