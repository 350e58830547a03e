package phases

import (
	"slices"

	"k8s.io/utils/ptr"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/journal"
)

// FindRun returns the run of the journal that has the ID, or with 0 the newest one that has a way back.
func FindRun(runs []journal.Run, id int) (*journal.Run, error) {
	for _, run := range slices.Backward(runs) {
		if run.ID == id || id == 0 && run.Before != "" {
			return &run, nil
		}
	}
	if id == 0 {
		return nil, finding.Refusedf("find the way back: the journal has no run that changed the cluster's settings").
			WithHint("ccmadm journal lists the runs that are known. Nothing was changed")
	}
	return nil, finding.Usagef("find run %d: it is not in the journal", id).WithHint("ccmadm journal lists those that are")
}

// FormerSettings are those of the cluster before a run, complete: what was not set then is set to nothing. Credentials,
// files and the inventory are in no record, and stay. The second result is the text of the user's own profile, if there
// was one.
func FormerSettings(run *journal.Run) (*v1alpha1.CloudConfiguration, string, error) {
	if run.Before == "" {
		return nil, "", finding.Refusedf("go back to before run %d: ccmadm %s has changed no settings", run.ID, run.Command).
			WithHint("ccmadm journal %d shows how to undo its steps. Nothing was changed", run.ID)
	}
	rec, err := v1alpha1.DecodeRecord("the record of before the run", []byte(run.Before))
	if err != nil {
		return nil, "", err
	}
	c := rec.Configuration
	c.Wait, c.ControlPlaneVIP.Interface = v1alpha1.WaitPolicy{}, "" // of a run, and of a machine
	c.Profile = ""
	c.ControllerManager.ExtraArgs = explicit(c.ControllerManager.ExtraArgs)
	c.ControllerManager.ExtraEnv = explicit(c.ControllerManager.ExtraEnv)
	c.Routes = new(c.WantsRoutes())
	c.NodeAgent.Enabled = new(ptr.Deref(c.NodeAgent.Enabled, c.WantsRoutes()))
	return &c, rec.Profile, nil
}

func explicit(list []string) []string { return append([]string{}, list...) }
