package settings

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/templates"
)

// Detected is what a machine says about its cloud.
type Detected struct {
	// Provider names the profile.
	Provider string
	// Saw lists the files and their content that told.
	Saw []string
}

// Detect finds the built-in profile whose DMI rules fit the machine. None or more than one is an error that says what
// was seen.
func Detect(m *machine.Machine) (*Detected, error) {
	var found []Detected
	for _, name := range templates.Names() {
		p, err := templates.Load(name)
		if err != nil {
			return nil, err
		}
		best := Detected{Provider: name}
		for _, rule := range p.DMI {
			if saw := matchDMI(m, rule); len(saw) > len(best.Saw) {
				best.Saw = saw
			}
		}
		found = append(found, best)
	}
	found = mostSpecific(found)
	if len(found) == 1 {
		return &found[0], nil
	}
	saw := fmt.Sprintf("this machine says sys_vendor %q, product_name %q", m.DMI("sys_vendor"), m.DMI("product_name"))
	if there, err := m.Exists(machine.DMIDir); err == nil && !there {
		saw = "this machine has no DMI data in " + machine.DMIDir
	}
	if len(found) == 0 {
		return nil, finding.Usagef("detect the provider: %s, which fits no profile", saw).
			WithHint("--provider names one; `ccmadm provider list` shows them, and `onprem` is for machines without a cloud")
	}
	var names []string
	for _, f := range found {
		names = append(names, f.Provider)
	}
	return nil, finding.Usagef("detect the provider: %s, which fits %s", saw, strings.Join(names, " and ")).
		WithHint("--provider names one of them")
}

// mostSpecific keeps those whose rule has most parts: clouds that are built on another's software still say its name.
func mostSpecific(found []Detected) []Detected {
	most := 1
	for _, f := range found {
		most = max(most, len(f.Saw))
	}
	return slices.DeleteFunc(found, func(f Detected) bool { return len(f.Saw) < most })
}

func matchDMI(m *machine.Machine, rule map[string]string) []string {
	var saw []string
	for file, want := range rule {
		value := m.DMI(file)
		if value == "" || !strings.HasPrefix(strings.ToLower(value), strings.ToLower(want)) {
			return nil
		}
		saw = append(saw, fmt.Sprintf("%s %q", file, value))
	}
	slices.Sort(saw)
	return saw
}
