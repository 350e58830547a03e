package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/watch"
	"github.com/ccmadm/ccmadm/doctor/diagnosis"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// watchCluster looks again and again, and says what has changed, until ctx ends. The error is that of the last look.
func (d *doctor) watchCluster(ctx context.Context, s workflow.Streams, names []string) error {
	var before *diagnosis.Diagnosis
	var last error
	silent := "" // why the cluster could not be asked the last time
	for {
		found, err := d.diagnose(ctx, s)
		switch {
		case ctx.Err() != nil:
			return last
		case err != nil:
			if !errors.As(err, new(notSeenError)) {
				return err
			}
			if last = err; err.Error() != silent {
				silent = err.Error()
				say(s, []string{"not seen: " + finding.Clean(silent)})
			}
		default:
			found = found.Of(names)
			silent, last = "", verdict(found)
			say(s, found.Changes(before))
			before = found
		}
		if !watch.Wait(ctx, d.interval) {
			return last
		}
	}
}

// say puts the time before what has changed.
func say(s workflow.Streams, lines []string) {
	for _, line := range lines {
		fmt.Fprintf(s.Out, "%s %s\n", time.Now().Format(time.TimeOnly), line)
	}
}
