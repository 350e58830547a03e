package workflow

import (
	"context"
	"slices"

	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/journal"
)

// CloseAbandoned ends an apply in the journal that was killed: one that came after it and found nothing to change has
// seen that nothing is left to do, on the same machine: a static pod is each machine's own. The journal marks it once another run
// begins. A run that is alive has the Lease, and is left alone.
func CloseAbandoned(ctx context.Context, r *Run) error {
	if !r.Existing || r.DryRun || r.Single || r.Course.Journal != nil || !r.Course.AllTried || r.Course.Changes() {
		return nil
	}
	here, err := NodeName(r.Host)
	if err != nil {
		return err
	}
	client, err := Connect(r.Env, machine.AdminConf)
	if err != nil {
		return err
	}
	runs, err := journal.Read(ctx, client)
	if err != nil || len(runs) == 0 {
		return err
	}
	last := runs[len(runs)-1]
	if last.Machine != here || last.State != journal.Begun || !slices.Contains([]string{"apply", r.Command}, last.Command) {
		return nil
	}
	if err := Begin(ctx, r, true, journal.Done); err != nil {
		r.Sayf("warning, run %d of the journal stays %s: %v", last.ID, journal.Begun, err)
		return nil
	}
	r.Sayf("run %d of the journal was cut short, and nothing was left to change: closed", last.ID)
	return r.Close(ctx)
}
