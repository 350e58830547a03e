package upgrade

import (
	"cmp"
	"context"
	"slices"

	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// Step runs a phase, as a step of the journal where it changes something.
func (*Upgrade) Step(ctx context.Context, r *workflow.Run, p workflow.Phase) error {
	if !r.Existing {
		return p.Run(ctx, r)
	}
	change := r.Course.Previews[p.Name].Change
	if r.Course.Journal == nil || p.Journal == workflow.JournalItself || change == "" && p.Journal != workflow.JournalAlways {
		return p.Run(ctx, r)
	}
	return workflow.JournalStep(ctx, r, p, change, cmp.Or(p.Undo, workflow.RollbackTo(r)))
}

// begin opens the journal where something is to be done, and holds its Lease from then on. A run that was cut
// short gets an end there even if nothing was left to do: as long as it has none, this machine counts as half upgraded.
func (u *Upgrade) begin(ctx context.Context, r *workflow.Run, resumed bool) error {
	if r.DryRun {
		return nil
	}
	identity, err := identityLags(ctx, r)
	if err != nil {
		return err
	}
	refused := journal.Done
	if resumed { // the interrupted upgrade has no end yet
		refused = journal.Failed
	}
	return workflow.Begin(ctx, r, u.kubeadm || identity || resumed || r.Course.Changes(), refused)
}

// upgradeCutShort tells whether the last upgrade on this machine was this one, and did not come to its end.
func upgradeCutShort(ctx context.Context, r *workflow.Run) (bool, error) {
	client, err := workflow.Connect(r.Env, machine.AdminConf)
	if err != nil {
		return false, err
	}
	runs, err := journal.Read(ctx, client)
	if err != nil {
		return false, err
	}
	node, err := workflow.NodeName(r.Host)
	if err != nil {
		return false, err
	}
	last := lastUpgrade(runs, node)
	return last.Command == r.Command && last.State != journal.Done, nil
}

// lastUpgrade is the last one that was begun on a control plane; the zero value: there was none.
func lastUpgrade(runs []journal.Run, node string) journal.Run {
	for _, run := range slices.Backward(runs) {
		if run.Machine == node && run.Operation().Subject == journal.KubernetesVersion {
			return run
		}
	}
	return journal.Run{}
}
