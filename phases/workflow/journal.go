package workflow

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/journal"
)

// NodeStep runs what changes one node, as a step of the journal.
func NodeStep(ctx context.Context, d *Data, step journal.Step, run func(context.Context) error) error {
	if d.Known.Journal == nil {
		return run(ctx)
	}
	return d.Known.Journal.Do(ctx, step, run)
}

// Preview is what a dry run of a phase has found.
type Preview struct {
	Change string // the difference that it would make; empty: none
	Said   string // what it says of what is as it should be
}

// TryPhases runs phases as a dry run that nobody sees, and keeps what they would change.
func TryPhases(ctx context.Context, d *Data, list []Phase) (trial *Data, err error) {
	var out, said bytes.Buffer
	o := d.Options
	o.DryRun = true
	if trial, err = New(ctx, d.Machine, o, Streams{In: d.In, Out: &out, Err: &said, Env: d.Env}, d.Version); err != nil {
		return nil, err
	}
	trial.Trial = true
	d.Known.Previews = map[string]Preview{}
	for _, p := range list {
		out.Reset()
		said.Reset()
		trial.Known.Changed = false
		if err := p.Do(ctx, trial); err != nil {
			return nil, err
		}
		found := Preview{Said: said.String()}
		if trial.Changed() {
			found.Change = cmp.Or(string(kubeadm.MaskSecrets(out.Bytes())), "not shown")
		}
		d.Known.Previews[p.Name] = found
	}
	return trial, nil
}

// journaled runs a phase. In a cluster that lives, it is written into the journal before, if it changes something. A
// run that is to change something begins there with its first phase, and holds the Lease from then on; any other writes
// nothing, waits for nobody, and only says what its dry run has found.
func journaled(ctx context.Context, d *Data, p Phase) error {
	if d.DryRun || p.Journal == JournalNever {
		return p.Run(ctx, d)
	}
	return d.Operation.Step(ctx, d, p)
}

// ApplyStep is the step of a phase of apply. It notes what the phase changes.
func ApplyStep(ctx context.Context, d *Data, p Phase) error {
	if d.Known.Previews == nil {
		if _, err := TryPhases(ctx, d, []Phase{p}); err != nil {
			return err
		}
	}
	found := d.Known.Previews[p.Name]
	changes := func(f Preview) bool { return f.Change != "" }
	if d.Known.Journal == nil && slices.ContainsFunc(slices.Collect(maps.Values(d.Known.Previews)), changes) {
		if err := OpenJournal(ctx, d); err != nil {
			return err
		}
	}
	waits := p.Plan != nil
	if d.Known.Journal == nil && !waits {
		fmt.Fprint(d.Progress(), found.Said)
		return nil
	}
	if d.Known.Journal == nil || found.Change == "" && !waits {
		return p.Run(ctx, d)
	}
	err := JournalStep(ctx, d, p, found.Change, RollbackTo(d))
	if d.Single {
		err = errors.Join(err, d.End(ctx, err))
	}
	return err
}

// JournalStep runs a phase as a step of the journal.
func JournalStep(ctx context.Context, d *Data, p Phase, change, undo string) error {
	node, err := NodeName(d)
	if err != nil {
		return err
	}
	step := journal.Step{Name: p.Name, Node: node, What: p.Short, Change: change, Undo: undo}
	return d.Known.Journal.Do(ctx, step, func(ctx context.Context) error { return p.Run(ctx, d) })
}

// OpenRun begins a run, with the record that it can be led back to, or none. It may have to wait for another one.
func OpenRun(ctx context.Context, d *Data, client kubernetes.Interface, before string) error {
	here, err := NodeName(d)
	if err != nil {
		return err
	}
	d.Known.Journal, err = journal.Open(ctx, client, journal.Run{
		Command: d.Command, Version: d.Version, Machine: here, Before: before,
		Waiting: func(holder string) {
			d.Sayf("%s has not ended: watched for up to %s, until it is known to live or not", holder, journal.LeaseLasts)
		},
	})
	return err
}

// RollbackTo is the way back of this run.
func RollbackTo(d *Data) string { return fmt.Sprintf("ccmadm rollback %d", d.Known.Journal.ID()) }

// OpenJournal begins a run whose way back is the cluster's record. The record must be the one that this run goes by.
func OpenJournal(ctx context.Context, d *Data) error {
	rec, err := d.Operation.Record(ctx, d)
	if err != nil {
		return err
	}
	before, err := rec.Encode()
	if err != nil {
		return err
	}
	client, err := Connect(d, machine.AdminConf)
	if err != nil {
		return err
	}
	if err := OpenRun(ctx, d, client, string(before)); err != nil {
		return err
	}
	if err := RefuseOtherRecord(ctx, client, string(before)); err != nil {
		return errors.Join(err, d.Close(ctx)) // nothing is left to go on with
	}
	return nil
}

// RefuseOtherRecord finds a record that is not the one that a run goes by, which holds the journal's Lease from now on:
// somebody else's run has ended meanwhile. Empty: there was none.
func RefuseOtherRecord(ctx context.Context, client kubernetes.Interface, before string) error {
	var after []byte
	living, err := AskRecord(ctx, client)
	if err == nil {
		after, err = living.Encode()
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("compare with the cluster's record: %w", err)
	}
	if before == string(after) {
		return nil
	}
	return finding.Refusedf("begin: the cluster's record has become another one since this run has read it").
		WithHint("the same command again goes by the new one; nothing was changed")
}

// Close ends the run in the journal, if it has begun there, and nothing has failed beside its steps.
func (d *Data) Close(ctx context.Context) error { return d.End(ctx, nil) }

// End is Close of a run that may have failed.
func (d *Data) End(ctx context.Context, failed error) error {
	j := d.Known.Journal
	d.Known.Journal = nil
	if j == nil {
		return nil
	}
	return j.End(ctx, failed)
}

// Run runs all phases of a list, one after the other.
func Run(ctx context.Context, d *Data, list []Phase) (err error) {
	defer func() { err = AsError(errors.Join(err, d.End(ctx, err))) }()
	for _, p := range list {
		if err := p.Do(ctx, d); err != nil {
			return err
		}
	}
	return d.Operation.End(ctx, d)
}

// ControlPlaneClient is how this control plane reaches its cluster, as ccmadm apply does.
func ControlPlaneClient(m *machine.Machine, version string) (kubernetes.Interface, error) {
	return AdminClient(&Data{Machine: m, Version: version})
}

// KeepsSettings tells a run that writes none, however far it has come: init brings back what the record says, and workers
// have none.
func KeepsSettings(run *journal.Run) bool {
	return run.Command == string(kubeadm.RoleInit) || strings.HasPrefix(run.Command, UpgradeWorkers)
}

// UpgradeWorkers begins the command of a run of workers' upgrades alone, as the journal has it.
const UpgradeWorkers = "upgrade workers "
