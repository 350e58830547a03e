package templates

import (
	"path"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Rehearsal says whether the program can be run against a live cluster, by `ccmadm rehearse`, without doing anything
// beside what upstream's controllers do: those are kept from writing, its own calls to the cloud are not.
type Rehearsal struct {
	// Verdict is Safe, Unknown or Refused.
	Verdict RehearsalVerdict `json:"verdict"`
	// Why says what is known.
	Why string `json:"why"`
	// Program is the file that the image starts, absolute, where Command does not name it: a rehearsal in a pod starts it
	// itself, several times. Empty: only the user can name it.
	// +pattern=^/
	Program string `json:"program,omitempty"`
}

// RehearsalVerdict is what is known of a program that is rehearsed.
type RehearsalVerdict string

// The verdicts.
const (
	// RehearsalSafe: a release of it was rehearsed, and nothing else in it writes.
	RehearsalSafe RehearsalVerdict = "Safe"
	// RehearsalUnknown: nobody has tried, or it depends on the program. It goes with a warning.
	RehearsalUnknown RehearsalVerdict = "Unknown"
	// RehearsalRefused: it writes to the cloud, goes past the proxy, or yields nothing.
	RehearsalRefused RehearsalVerdict = "Refused"
)

func (r *Rehearsal) validate(at *field.Path) field.ErrorList {
	errs := oneOf(at.Child("verdict"), r.Verdict, RehearsalSafe, RehearsalUnknown, RehearsalRefused)
	if r.Why == "" {
		errs = append(errs, field.Required(at.Child("why"), "say what is known"))
	}
	if r.Program != "" && !path.IsAbs(r.Program) {
		errs = append(errs, field.Invalid(at.Child("program"), r.Program, "must be absolute"))
	}
	return errs
}
