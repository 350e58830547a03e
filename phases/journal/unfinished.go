package journal

import (
	"slices"
	"strings"
)

// Unfinished returns the newest run that began to change something and did not come to its end, or nil. Runs are in the
// order of Read. A later run that came to its end and has led to a known state makes up for it: of an upgrade, another one
// on that machine; of all others, any apply, adopt, leave, rollback or init. An apply or a rollback that failed by itself
// is finished: it has told what failed, and its causes are the doctor's to find. The rest goes on where it stopped.
//
// A run that is Begun may be under way: see Renewals.UnderWay.
func Unfinished(runs []Run) *Run {
	settled := map[string]bool{}
	for i := range slices.Backward(runs) {
		r := &runs[i]
		switch kind := r.kind(); {
		case r.State == Done:
			settled[kind] = true
		case !settled[kind] && len(r.Steps) > 0 && (r.State != Failed || r.resumes()):
			return r
		}
	}
	return nil
}

// kind says which runs a run makes up for.
func (r *Run) kind() string {
	if strings.HasPrefix(r.Command, "upgrade ") {
		return "upgrade on " + r.Machine
	}
	return "settings"
}

// resumes tells a command of many steps, which goes on behind those that are done.
func (r *Run) resumes() bool {
	name, _, _ := strings.Cut(r.Command, " ")
	return name == "adopt" || name == "leave" || name == "upgrade"
}
