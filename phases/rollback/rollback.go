// Package rollback finds the way back from a run of the journal, whichever operation it was of.
//
// Start at [NewestChange], which chooses the run where the user names none, and [FormerSettings], the settings of before it. Reads:
// the journal's runs, and the cluster's record. Writes: nothing; `ccmadm rollback` applies the settings. Runs of an operation
// with a way back of its own (see journal.Operations) are that operation's: package adoption has the one of adopt and leave.
package rollback

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/upgrade/planner"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// NewestChange returns the newest run that has changed the cluster's settings, or was cut short before it could. One
// that has only brought another machine to them, or repaired what had drifted, is none: to before it is where the
// cluster is. Of a rollback that has not come to its end it is the run that is rolled back: the rollback is completed.
// It reads the cluster's record.
func NewestChange(ctx context.Context, client kubernetes.Interface, runs []journal.Run) (*journal.Run, error) {
	if n := len(runs); n > 0 && runs[n-1].Operation().OwnWayBack { // leave may have taken the record
		return toComplete(runs, &runs[n-1])
	}
	rec, err := workflow.AskRecord(ctx, client)
	if err != nil {
		return nil, finding.Refusedf("compare with the cluster's record: %w", err).WithHint("nothing was changed")
	}
	return newestChange(runs, rec)
}

// newestChange goes back from what the record says now: each run has left what the next one has found.
func newestChange(runs []journal.Run, after *state.Record) (*journal.Run, error) {
	ended := false
	for _, run := range slices.Backward(runs) {
		if run.Shortened {
			break
		}
		if run.Before == "" || run.Operation().OwnWayBack {
			return nil, finding.Refusedf("find the way back: run %d, ccmadm %s, has changed more than settings", run.ID,
				run.Command).WithHint("ccmadm journal %d shows how to undo its steps; ccmadm rollback RUN goes to before "+
				"an earlier one. Nothing was changed", run.ID)
		}
		before, err := recordBefore(&run)
		if err != nil {
			return nil, err
		}
		switch {
		case run.State != journal.Done && !ended && !run.Operation().KeepsSettings:
			return toComplete(runs, &run)
		case !sameSettings(before, after):
			return &run, nil
		}
		ended, after = ended || run.State == journal.Done && !run.Operation().KeepsSettings, before
	}
	return nil, finding.Refusedf("find the way back: the journal has no run that changed the cluster's settings").
		WithHint("ccmadm journal lists the runs that are known. Nothing was changed")
}

// toComplete is what to roll back where the newest run is a rollback without an end: the same run again. A number undoes the rollback.
func toComplete(runs []journal.Run, newest *journal.Run) (*journal.Run, error) {
	id, is := newest.RollsBack()
	if !is || newest.State == journal.Done {
		return newest, nil
	}
	run, err := journal.Find(runs, id)
	if err != nil || run.Shortened {
		return nil, finding.Refusedf("find the way back: run %d, ccmadm %s, has not ended, and the journal no longer has run %d",
			newest.ID, newest.Command, id).WithHint("ccmadm rollback %d undoes it. Nothing was changed", newest.ID)
	}
	return run, nil
}

// recordBefore is the cluster's record as the run found it. One of a newer ccmadm is refused: without what this one does not know, other
// settings would be those of before.
func recordBefore(run *journal.Run) (*state.Record, error) {
	rec, err := state.DecodeRecord("the record of before the run", []byte(run.Before))
	if err == nil && rec.Newer != "" {
		return nil, finding.Refusedf("go back to before run %d, whose record ccmadm %s has written: %s", run.ID,
			cmp.Or(rec.WrittenBy, "of another version"), rec.Newer).
			WithHint("run the version that has written it, or a newer one. Nothing was changed")
	}
	return rec, err
}

func sameSettings(a, b *state.Record) bool {
	return a.Profile == b.Profile && equality.Semantic.DeepEqual(a.Configuration, b.Configuration)
}

// FormerSettings are those of the cluster before a run, complete: what was not set then is set to nothing. Credentials,
// files and the inventory are in no record, and stay. The second result is the text of the user's own profile, if there
// was one.
func FormerSettings(run *journal.Run) (*config.CloudConfiguration, string, error) {
	if run.Before == "" {
		return nil, "", finding.Refusedf("go back to before run %d: ccmadm %s has changed no settings", run.ID, run.Command).
			WithHint("ccmadm journal %d shows how to undo its steps. Nothing was changed", run.ID)
	}
	rec, err := recordBefore(run)
	if err != nil {
		return nil, "", err
	}
	c := rec.Configuration
	c.ControllerManager.MoveCredentials()                         // to what the Secret has of them
	c.Wait, c.ControlPlaneVIP.Interface = config.WaitPolicy{}, "" // of a run, and of a machine
	c.Profile = ""
	if rec.LifecycleHeld { // nobody has said it: adopt switches it on at its end
		c.Lifecycle = ""
	}
	c.ControllerManager.ExtraArgs = explicit(c.ControllerManager.ExtraArgs)
	c.ControllerManager.ExtraEnv = explicit(c.ControllerManager.ExtraEnv)
	c.Routes = new(c.WantsRoutes())
	c.NodeAgent.Enabled = new(ptr.Deref(c.NodeAgent.Enabled, c.WantsRoutes()))
	c.ServingCertificates = config.ServingCertificates{
		Enabled: new(c.WantsServingCertificates()), AddressRanges: explicit(c.ServingCertificates.AddressRanges),
		Names: explicit(c.ServingCertificates.Names),
	}
	return &c, rec.Profile, nil
}

// FormerImageBy is who had chosen the manager's image before a run: a rollback brings that back, too.
func FormerImageBy(run *journal.Run) (state.ImageBy, error) {
	rec, err := recordBefore(run)
	if err != nil {
		return "", err
	}
	profile, err := settings.RecordedProfile(rec)
	if err != nil {
		return "", err
	}
	return planner.ImageBy(profile, rec), nil
}

func explicit(list []string) []string { return append([]string{}, list...) }
