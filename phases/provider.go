package phases

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/kubeadm"

	"github.com/ccmadm/ccmadm/templates"
)

// Profile returns the profile of the provider that holds on this machine.
func (d *Data) Profile(ctx context.Context) (*templates.Profile, error) {
	settings, err := d.Settings(ctx)
	if err != nil {
		return nil, err
	}
	return d.profileOf(ctx, settings)
}

// KnownProvider refuses names that are no profile's, where the provider has no profile of its own.
func KnownProvider(c *v1alpha1.CloudConfiguration) field.ErrorList {
	if c.Provider == "" || c.Provider == v1alpha1.ProviderAuto || c.Profile != "" {
		return nil
	}
	if _, err := templates.Load(c.Provider); err != nil {
		return field.ErrorList{field.Invalid(field.NewPath("provider"), c.Provider, err.Error())}
	}
	return nil
}

// profileOf takes the user's file over the text in the record over what is built in.
func (d *Data) profileOf(ctx context.Context, settings *v1alpha1.CloudConfiguration) (*templates.Profile, error) {
	where, text, err := d.ownProfile(ctx, settings)
	if err != nil {
		return nil, err
	}
	if text == "" {
		return templates.Load(settings.Provider)
	}
	p, err := templates.Parse(where, []byte(text))
	if err != nil {
		return nil, finding.Usagef("%w", err).WithHint("docs/reference/profile.md describes every field; `ccmadm provider show NAME -o yaml` prints a built-in one")
	}
	return p, nil
}

// ownProfile is the user's own profile and where it stands; empty where a built-in one is used.
func (d *Data) ownProfile(ctx context.Context, settings *v1alpha1.CloudConfiguration) (where, text string, err error) {
	if settings.Profile != "" {
		data, err := os.ReadFile(settings.Profile)
		if err != nil {
			return "", "", finding.Usagef("read profile: %w", err)
		}
		if strings.TrimSpace(string(data)) == "" {
			return "", "", finding.Usagef("read profile %s: it is empty", settings.Profile)
		}
		return settings.Profile, string(data), nil
	}
	if !d.Single && d.Role != kubeadm.RoleJoin {
		return "", "", nil
	}
	rec, err := d.knownRecord(ctx)
	if err != nil || rec == nil || rec.Configuration.Provider != settings.Provider {
		return "", "", err
	}
	return "the cluster's record", rec.Profile, nil
}

// recordedProfile is that of the cluster's provider.
func recordedProfile(r *v1alpha1.Record) (*templates.Profile, error) {
	if r.Profile != "" {
		return templates.Parse("the cluster's record", []byte(r.Profile))
	}
	return templates.Load(r.Configuration.Provider)
}

// settle replaces what is left to be found out: the provider "auto", the name of the user's own profile, the mode.
func (d *Data) settle(ctx context.Context, settings *v1alpha1.CloudConfiguration) error {
	if settings.Provider == v1alpha1.ProviderAuto {
		found, err := Detect(DMIDir)
		if err != nil {
			return err
		}
		settings.Provider = found.Provider
	}
	p, err := d.profileOf(ctx, settings)
	if err != nil {
		return err
	}
	if settings.Provider != "" && settings.Provider != p.Name {
		return finding.Usagef("provider %q: the profile %s is that of %q", settings.Provider, settings.Profile, p.Name).WithHint("leave --provider out")
	}
	settings.Provider = p.Name
	if settings.Mode == v1alpha1.ModeAuto {
		settings.Mode = autoMode(p)
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

// DMIDir is where the kernel shows what the firmware says of the machine.
const DMIDir = "/sys/class/dmi/id"

// Detected is what a machine says about its cloud.
type Detected struct {
	// Provider names the profile.
	Provider string
	// Saw lists the files and their content that told.
	Saw []string
}

// Detect finds the built-in profile whose DMI rules fit the machine, of which dir shows the data. None or more than
// one is an error that says what was seen.
func Detect(dir string) (*Detected, error) {
	var found []Detected
	for _, name := range templates.Names() {
		p, err := templates.Load(name)
		if err != nil {
			return nil, err
		}
		best := Detected{Provider: name}
		for _, rule := range p.DMI {
			if saw := matchDMI(dir, rule); len(saw) > len(best.Saw) {
				best.Saw = saw
			}
		}
		found = append(found, best)
	}
	found = mostSpecific(found)
	if len(found) == 1 {
		return &found[0], nil
	}
	saw := fmt.Sprintf("this machine says sys_vendor %q, product_name %q", readDMI(dir, "sys_vendor"), readDMI(dir, "product_name"))
	if _, err := os.Stat(dir); err != nil {
		saw = "this machine has no DMI data in " + dir
	}
	if len(found) == 0 {
		return nil, finding.Usagef("detect the provider: %s, which fits no profile", saw).WithHint("--provider names one; `ccmadm provider list` shows them, and `onprem` is for machines without a cloud")
	}
	var names []string
	for _, f := range found {
		names = append(names, f.Provider)
	}
	return nil, finding.Usagef("detect the provider: %s, which fits %s", saw, strings.Join(names, " and ")).WithHint("--provider names one of them")
}

// mostSpecific keeps those whose rule has most parts: clouds that are built on another's software still say its name.
func mostSpecific(found []Detected) []Detected {
	most := 1
	for _, f := range found {
		most = max(most, len(f.Saw))
	}
	return slices.DeleteFunc(found, func(f Detected) bool { return len(f.Saw) < most })
}

func matchDMI(dir string, rule map[string]string) []string {
	var saw []string
	for file, want := range rule {
		value := readDMI(dir, file)
		if value == "" || !strings.HasPrefix(strings.ToLower(value), strings.ToLower(want)) {
			return nil
		}
		saw = append(saw, fmt.Sprintf("%s %q", file, value))
	}
	slices.Sort(saw)
	return saw
}

func readDMI(dir, file string) string {
	data, err := os.ReadFile(filepath.Join(dir, filepath.Base(file)))
	if err != nil {
		return "" // a machine without firmware tables says nothing
	}
	return strings.TrimSpace(string(data))
}
