package lint

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ccmadm/ccmadm/api/finding"
)

// errNoEffect is of a fix after which the same is found again: trying once more would never end.
var errNoEffect = errors.New("the text has the mistake after the fix, too")

// Fix applies the fixes of what check finds until nothing is left that has one: fixing one thing can show another. It
// returns what it has fixed, and what is left. A fix that the text does not allow, such as one in an anchor that is
// used elsewhere, or that has no effect, stays a finding that says so. The error is that of check, about what could not be looked at.
func Fix(check func() ([]finding.Finding, error)) (fixed, left []finding.Finding, err error) {
	refused, done := map[string]error{}, map[string]bool{} // done in a round before
	for {
		left, err = check()
		var now []finding.Finding
		for i, f := range left {
			key := Key(f)
			if done[key] && refused[key] == nil {
				refused[key] = errNoEffect
			}
			reason := refused[key]
			if f.Fix == nil || reason != nil {
				explain(&left[i], reason)
				continue
			}
			if reason = f.Fix(); reason != nil {
				refused[key] = reason
				explain(&left[i], reason)
				continue
			}
			now = append(now, f)
		}
		if len(now) == 0 {
			fixed = slices.DeleteFunc(fixed, func(f finding.Finding) bool { return errors.Is(refused[Key(f)], errNoEffect) })
			return fixed, left, err
		}
		fixed = append(fixed, now...)
		for _, f := range now {
			done[Key(f)] = true
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
