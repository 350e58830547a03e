package templates

import "k8s.io/apimachinery/pkg/util/validation/field"

// Rehearsal says whether the program can be run against a live cluster, by `ccmadm rehearse`, without doing anything
// beside what upstream's controllers do: those are kept from writing, its own calls to the cloud are not.
type Rehearsal struct {
	// Verdict is Safe, Unknown or Refused.
	Verdict RehearsalVerdict `json:"verdict"`
	// Why says what is known.
	Why string `json:"why"`
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
	return errs
}

// CanRehearse is what is known of the program; Unknown where the profile says nothing.
func (p *Profile) CanRehearse() Rehearsal {
	if p.Rehearsal == nil {
		return Rehearsal{Verdict: RehearsalUnknown, Why: "the profile does not say"}
	}
	return *p.Rehearsal
}
