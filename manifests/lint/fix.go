package lint

import (
	"fmt"

	"github.com/ccmadm/ccmadm/api/finding"
)

// Fix applies the fixes of what check finds until nothing is left that has one: fixing one thing can show another. It
// returns what it has fixed, and what is left. A fix that the text does not allow, such as one in an anchor that is
// used elsewhere, stays a finding that says so. The error is that of check, about what could not be looked at.
func Fix(check func() ([]finding.Finding, error)) (fixed, left []finding.Finding, err error) {
	refused := map[string]error{}
	for {
		left, err = check()
		count := len(fixed)
		for i, f := range left {
			reason := refused[Key(f)]
			if f.Fix == nil || reason != nil {
				explain(&left[i], reason)
				continue
			}
			if reason = f.Fix(); reason != nil {
				refused[Key(f)] = reason
				explain(&left[i], reason)
				continue
			}
			fixed = append(fixed, f)
		}
		if len(fixed) == count {
			return fixed, left, err
		}
	}
}

func explain(f *finding.Finding, reason error) {
	if reason != nil {
		f.Fix, f.Do = nil, fmt.Sprintf("%s; by hand, since --fix cannot: %v", f.Do, reason)
	}
}

// Key tells a finding from others while line numbers change.
func Key(f finding.Finding) string {
	return string(f.ID) + "\x00" + f.File + "\x00" + f.Object + "\x00" + f.Message
}
