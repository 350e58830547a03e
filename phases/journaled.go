package phases

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/journal"
)

// foretold is what a dry run of a phase has found.
type foretold struct {
	change string // the difference that it would make; empty: none
	said   string // what it says of what is as it should be
}

// tryPhases runs phases as a dry run that nobody sees, and keeps what they would change.
func tryPhases(ctx context.Context, d *Data, list []Phase) (trial *Data, err error) {
	var out, said bytes.Buffer
	o := d.Options
	o.DryRun = true
	if trial, err = New(ctx, d.Machine, o, Streams{In: d.In, Out: &out, Err: &said, Env: d.Env}, d.Version); err != nil {
		return nil, err
	}
	trial.trial = true
	d.known.foretold = map[string]foretold{}
	for _, p := range list {
		out.Reset()
		said.Reset()
		trial.known.changed = false
		if err := p.run(ctx, trial); err != nil {
			return nil, err
		}
		found := foretold{said: said.String()}
		if trial.Changed() {
			found.change = cmp.Or(string(kubeadm.MaskSecrets(out.Bytes())), "not shown")
		}
		d.known.foretold[p.Name] = found
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

// applyStep is the step of a phase of apply. It notes what the phase changes.
func applyStep(ctx context.Context, d *Data, p Phase) error {
	if d.known.foretold == nil {
		if _, err := tryPhases(ctx, d, []Phase{p}); err != nil {
			return err
		}
	}
	found := d.known.foretold[p.Name]
	changes := func(f foretold) bool { return f.change != "" }
	if d.known.journal == nil && slices.ContainsFunc(slices.Collect(maps.Values(d.known.foretold)), changes) {
		if err := openJournal(ctx, d); err != nil {
			return err
		}
	}
	waits := p.Foretell != nil
	if d.known.journal == nil && !waits {
		fmt.Fprint(d.progress(), found.said)
		return nil
	}
	if d.known.journal == nil || found.change == "" && !waits {
		return p.Run(ctx, d)
	}
	err := journalStep(ctx, d, p, found.change, rollbackTo(d))
	if d.Single {
		err = errors.Join(err, d.end(ctx, err))
	}
	return err
}

// journalStep runs a phase as a step of the journal.
func journalStep(ctx context.Context, d *Data, p Phase, change, undo string) error {
	node, err := nodeName(d)
	if err != nil {
		return err
	}
	step := journal.Step{Name: p.Name, Node: node, What: p.Short, Change: change, Undo: undo}
	return d.known.journal.Do(ctx, step, func(ctx context.Context) error { return p.Run(ctx, d) })
}

// openRun begins a run, with the record that it can be led back to, or none. It may have to wait for another one.
func openRun(ctx context.Context, d *Data, client kubernetes.Interface, before string) error {
	here, err := nodeName(d)
	if err != nil {
		return err
	}
	d.known.journal, err = journal.Open(ctx, client, journal.Run{
		Command: d.Command, Version: d.Version, Machine: here, Before: before,
		Waiting: func(holder string) {
			d.Sayf("%s has not ended: watched for up to %s, until it is known to live or not", holder, journal.LeaseLasts)
		},
	})
	return err
}

// rollbackTo is the way back of this run.
func rollbackTo(d *Data) string { return fmt.Sprintf("ccmadm rollback %d", d.known.journal.ID()) }

// openJournal begins a run whose way back is the cluster's record. The record must be the one that this run goes by.
func openJournal(ctx context.Context, d *Data) error {
	rec, err := d.Operation.Record(ctx, d)
	if err != nil {
		return err
	}
	before, err := rec.Encode()
	if err != nil {
		return err
	}
	client, err := connect(d, machine.AdminConf)
	if err != nil {
		return err
	}
	if err := openRun(ctx, d, client, string(before)); err != nil {
		return err
	}
	if err := refuseOtherRecord(ctx, client, string(before)); err != nil {
		return errors.Join(err, d.Close(ctx)) // nothing is left to go on with
	}
	return nil
}

// refuseOtherRecord finds a record that is not the one that a run goes by, which holds the journal's Lease from now on:
// somebody else's run has ended meanwhile. Empty: there was none.
func refuseOtherRecord(ctx context.Context, client kubernetes.Interface, before string) error {
	var after []byte
	living, err := askRecord(ctx, client)
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
func (d *Data) Close(ctx context.Context) error { return d.end(ctx, nil) }

// end is Close of a run that may have failed.
func (d *Data) end(ctx context.Context, failed error) error {
	j := d.known.journal
	d.known.journal = nil
	if j == nil {
		return nil
	}
	return j.End(ctx, failed)
}

// Run runs all phases of a list, one after the other.
func Run(ctx context.Context, d *Data, list []Phase) (err error) {
	defer func() { err = asError(errors.Join(err, d.end(ctx, err))) }()
	for _, p := range list {
		if err := p.run(ctx, d); err != nil {
			return err
		}
	}
	return d.Operation.End(ctx, d)
}

// ControlPlaneClient is how this control plane reaches its cluster, as ccmadm apply does.
func ControlPlaneClient(m *machine.Machine, version string) (kubernetes.Interface, error) {
	return livingClient(&Data{Machine: m, Version: version})
}
