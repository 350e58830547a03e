package templates

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Checked says how a profile was compared with the provider's own program.
type Checked struct {
	// Version is the release, or the commit, that it was compared with.
	Version string `json:"version"`
	// How is Proven (the program itself ran, with just the arguments, variables and permissions that are rendered,
	// against an API server and a cloud that was played), Source (its code was read) or Manual (only its manual and its
	// manifests were read).
	How How `json:"how"`
	// Date is the day, like 2026-11-21.
	Date string `json:"date"` // not "on", which YAML takes for true
}

// How is a way to compare a profile with a program, the strongest first.
type How string

// The ways. Where a provider has several programs, the weakest counts.
const (
	HowProven How = "Proven"
	HowSource How = "Source"
	HowManual How = "Manual"
)

// String is for people: v1.36.1, Proven on 2026-11-21.
func (c *Checked) String() string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s, %s on %s", c.Version, c.How, c.Date)
}

func (c *Checked) validate(at *field.Path) field.ErrorList {
	errs := oneOf(at.Child("how"), c.How, HowProven, HowSource, HowManual)
	if c.Version == "" {
		errs = append(errs, field.Required(at.Child("version"), "say which release or commit was looked at"))
	}
	if _, err := time.Parse(time.DateOnly, c.Date); err != nil {
		errs = append(errs, field.Invalid(at.Child("date"), c.Date, "must be a day like 2026-11-21"))
	}
	return errs
}
