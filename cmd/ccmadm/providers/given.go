package providers

import (
	"strings"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/templates"
)

// Profile is the one that --provider or --profile names.
func Profile(c *config.CloudConfiguration) (*templates.Profile, error) {
	switch {
	case c.Profile != "" && c.Provider != "":
		return nil, finding.Usagef("--provider and --profile: give one of them")
	case c.Profile != "":
		p, _, err := readProfile(c.Profile)
		return p, err
	case c.Provider == "":
		return nil, finding.Usagef("--provider is missing; `ccmadm provider list` shows them")
	case c.Provider == config.ProviderAuto:
		found, err := settings.Detect(machine.New())
		if err != nil {
			return nil, err
		}
		return templates.Load(found.Provider)
	}
	p, err := templates.Load(c.Provider)
	if err != nil {
		return nil, finding.Usagef("%w", err)
	}
	return p, nil
}

// Credentials reads --credential. File names are relative to the working directory.
func Credentials(given []string) ([]config.Credential, error) {
	var list []config.Credential
	for _, text := range given {
		key, from, ok := strings.Cut(text, "=")
		if !ok || key == "" || from == "" {
			return nil, finding.Usagef("read --credential: %q has not the form KEY=FILE or KEY=env:NAME", key)
		}
		c := config.Credential{Key: key, File: from}
		if name, ok := strings.CutPrefix(from, "env:"); ok {
			c = config.Credential{Key: key, Env: name}
		}
		list = append(list, c)
	}
	return list, nil
}
