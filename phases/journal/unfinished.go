package journal

import "slices"

// Unfinished returns the newest run that began to change something and did not come to its end, or nil. Runs are in the
// order of Read. A later run that came to its end and has led to a known state makes up for it: of an upgrade, another one
// on that machine; of all others, any apply, adopt, leave, rollback or init. An apply or a rollback that failed by itself
// is finished: it has told what failed, and its causes are the doctor's to find. The rest goes on where it stopped.
//
// A run that is Begun may be under way: see Renewals.UnderWay.
func Unfinished(runs []Run) *Run {
	type subject struct {
		Subject
		machine string
	}
	settled := map[subject]bool{}
	for i := range slices.Backward(runs) {
		r := &runs[i]
		o := r.Operation()
		of := subject{Subject: o.Subject}
		if o.Subject == KubernetesVersion {
			of.machine = r.Machine
		}
		switch {
		case r.State == Done:
			settled[of] = true
		case !settled[of] && len(r.Steps) > 0 && (r.State != Failed || o.FailedIsUnfinished):
			return r
		}
	}
	return nil
}
