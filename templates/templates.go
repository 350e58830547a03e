// Package templates holds the provider profiles: everything in which one cloud differs from another, as data.
//
// Start at [Profile]. [Load] returns a built-in profile, [Parse] reads a user's own; both work exactly alike, and no
// code anywhere knows a cloud by name. In a profile's texts ${name} stands for one of the [Values].
//
// Reads: the embedded profiles/*.yaml. Writes: nothing. A profile is immutable once it is read, so loading it twice
// gives the same.
package templates

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
)

//go:embed profiles/*.yaml
var profiles embed.FS

// Names lists the built-in profiles, sorted.
func Names() []string {
	entries, err := profiles.ReadDir("profiles")
	if err != nil {
		return nil // the folder is embedded at build time: it is there
	}
	var names []string
	for _, entry := range entries {
		names = append(names, strings.TrimSuffix(entry.Name(), ".yaml"))
	}
	return names
}

// Load returns the built-in profile of that name.
func Load(name string) (*Profile, error) {
	data, err := Source(name)
	if err != nil {
		return nil, err
	}
	return parse(file(name), data, (*Profile).validateBuiltIn)
}

func file(name string) string { return path.Join("profiles", name+".yaml") }

// Source returns the text of the built-in profile of that name.
func Source(name string) ([]byte, error) {
	names := Names()
	if !slices.Contains(names, name) {
		return nil, fmt.Errorf("load profile %q: unknown provider%s; known are %s", name, finding.Meant(name, names),
			strings.Join(names, ", "))
	}
	data, err := profiles.ReadFile(file(name))
	if err != nil {
		return nil, fmt.Errorf("load profile %q: %w", name, err)
	}
	return data, nil
}
