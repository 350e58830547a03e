package record

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// Initialization is the operation of `ccmadm init`, on a machine that makes a cluster or has made one.
type Initialization struct{ Ordinary }

var _ workflow.Operation = Initialization{}

// InitContradicted is what init says on a machine that has a cluster.
func InitContradicted() Contradicted {
	return Contradicted{
		Command:     journal.CommandInit,
		Hint:        "leave it out: this machine has a cluster, whose settings hold; `ccmadm apply` changes those that can be changed",
		Unpublished: true,
	}
}

// Step runs a phase. In an existing cluster it brings back what the record says, as apply does: what it changes is a step of the
// journal, under the Lease of the one run that changes a cluster at a time.
func (Initialization) Step(ctx context.Context, r *workflow.Run, p workflow.Phase) error {
	lives, err := repairs(ctx, r, p)
	if err != nil {
		return err
	}
	if !lives {
		return p.Run(ctx, r)
	}
	trial, err := workflow.PreviewPhases(ctx, r, []workflow.Phase{p})
	if err == nil {
		err = trial.Refusal()
	}
	if err != nil {
		return err
	}
	found := r.Course.Previews[p.Name]
	if found.Change == "" {
		fmt.Fprint(r.Progress(), found.Said)
		return nil
	}
	c := r.InPhase(r.Phase)
	c.Command = journal.CommandInit
	if err := openRepair(ctx, c); err != nil {
		return err
	}
	err = workflow.JournalStep(ctx, c, p, found.Change, workflow.RollbackTo(c))
	if r.Single {
		err = errors.Join(err, r.Close(ctx))
	}
	return err
}

// repairs tells whether a phase of init would write what belongs to all control planes, in a cluster whose record is
// published, and with which this machine's Node has come through.
func repairs(ctx context.Context, r *workflow.Run, p workflow.Phase) (bool, error) {
	if r.Role != kubeadm.RoleInit || !p.Shared {
		return false, nil
	}
	if lives, err := Established(ctx, r); err != nil || !lives {
		return false, err
	}
	if _, err := r.Settings(ctx); err != nil { // which ask for the record
		return false, err
	}
	rec, err := publishedRecord(ctx, r)
	return rec != nil, err
}

// openRepair begins a run that goes by the record: that must be what the cluster is meant to be.
func openRepair(ctx context.Context, r *workflow.Run) error {
	if r.Course.Journal != nil {
		return nil
	}
	if err := refuseUnended(ctx, r.Env); err != nil {
		return err
	}
	if err := workflow.Begin(ctx, r, true, journal.Done); err != nil {
		return err
	}
	if err := refuseUnended(ctx, r.Env); err != nil { // one that has begun, and ended, in between
		return errors.Join(err, r.Close(ctx))
	}
	return nil
}

// refuseUnended finds a run that is under way, or has left the cluster between two states: the record is written last,
// and by it init would take away what the new manager needs.
func refuseUnended(ctx context.Context, env *workflow.Env) error {
	client, err := workflow.Connect(env, machine.AdminConf)
	if err != nil {
		return err
	}
	runs, err := journal.Read(ctx, client)
	if err != nil {
		return err
	}
	for _, run := range slices.Backward(runs) {
		switch {
		case run.Operation().KeepsSettings:
			continue
		case run.State == journal.Done:
			return nil
		}
		return errUnended(&run)
	}
	return nil
}

// errUnended names the run, and the command that completes it on its machine.
func errUnended(run *journal.Run) *finding.Error {
	again := cmp.Or(run.Line, "ccmadm "+run.Command+", with the flags of that run") // a journal of before lines were noted has none
	return finding.Refusedf("restore the settings of the cluster's record: run %d, ccmadm %s on %s, is not finished",
		run.ID, run.Command, run.Machine).
		WithHint("ccmadm journal %d shows its steps. To complete it, on %s: %s. ccmadm rollback %[1]d or ccmadm apply undoes it. Nothing was changed",
			run.ID, run.Machine, again)
}
