package settings

import (
	"os"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/templates"
)

// CheckConfiguration refuses what `ccmadm init` would refuse in a configuration, as far as that does not depend on the machine: a
// provider that is asked of the machine passes. It reads the profile that the configuration names and nothing else.
func CheckConfiguration(c *config.CloudConfiguration) error {
	settings := c.DeepCopy()
	settings.Default()
	if settings.Profile == "" && settings.Provider == config.ProviderAuto {
		return nil
	}
	profile, err := templates.Load(settings.Provider)
	if settings.Profile != "" {
		text, readErr := os.ReadFile(settings.Profile)
		if readErr != nil {
			return finding.Usagef("read profile: %w", readErr)
		}
		profile, err = templates.Parse(settings.Profile, text)
	}
	if err != nil {
		return finding.Usagef("%w", err)
	}
	if settings.Mode == config.ModeAuto { // then the profile has the choice
		settings.Mode = config.Mode(profile.Modes[0])
	}
	return Compatible(settings, profile)
}
