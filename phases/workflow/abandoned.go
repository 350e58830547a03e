package workflow

import (
	"cmp"
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/journal"
)

// CloseAbandoned ends a run in the journal that was killed, stopped, or failed in its wait: the same command, which came after it and
// found nothing to change, has seen that nothing is left to do, on the same machine: a static pod is each machine's own, and goes with
// its Node. A run that is alive has the Lease, and is left alone.
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
	if err != nil {
		return err
	}
	last := LeftOpen(runs, journal.CommandApply, r.Command)
	if last == nil {
		return nil
	}
	if last.Machine != here {
		switch _, err := AskNode(ctx, client, last.Machine); {
		case err == nil:
			r.Sayf("run %d, ccmadm %s on %s, has not succeeded: unless it is under way, repeat it there", last.ID, last.Command, last.Machine)
			return nil
		case !apierrors.IsNotFound(err):
			return err
		}
	}
	if err := Begin(ctx, r, true, journal.Done); err != nil {
		r.Sayf("warning, run %d of the journal stays %s: %v", last.ID, last.State, err)
		return nil
	}
	SayClosed(r, last)
	return r.Close(ctx)
}

// SayClosed names a run that this one closes in the journal. An apply with another command line may have had settings that have not
// reached the cluster's record, and this run goes by the record.
func SayClosed(r *Run, last *journal.Run) {
	if last.Command == journal.CommandApply && last.Line != r.Line {
		r.Sayf("run %d of the journal, %s, was cut short or failed: closed. The cluster agrees with its record. "+
			"Settings that run %[1]d did not write into the record are not applied: repeat its command to apply them",
			last.ID, cmp.Or(last.Line, "ccmadm apply with the flags of that run"))
		return
	}
	r.Sayf("run %d of the journal was cut short or failed, and nothing was left to change: closed", last.ID)
}

// HasEnded reads the journal again, and tells whether a run has succeeded since it was found there without an end.
func HasEnded(ctx context.Context, client kubernetes.Interface, run *journal.Run) (bool, error) {
	runs, err := journal.Read(ctx, client)
	return slices.ContainsFunc(runs, func(r journal.Run) bool { return r.ID == run.ID && r.State == journal.Done }), err
}

// LeftOpen returns the newest run that may change settings, if it is one of the commands and has not succeeded. Nothing may be left of
// it but its end.
func LeftOpen(runs []journal.Run, commands ...string) *journal.Run {
	for _, run := range slices.Backward(runs) {
		if run.Operation().KeepsSettings {
			continue
		}
		if run.State != journal.Done && slices.Contains(commands, run.Command) {
			return &run
		}
		break
	}
	return nil
}
