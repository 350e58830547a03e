package workflow

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/journal"
)

// NodeStep runs what changes one node, as a step of the journal.
func NodeStep(ctx context.Context, r *Run, step journal.Step, run func(context.Context) error) error {
	if r.Course.Journal == nil {
		return run(ctx)
	}
	return r.Course.Journal.Do(ctx, step, run)
}

// Preview is what a dry run of a phase has found.
type Preview struct {
	Change string // the difference that it would make; empty: none
	Said   string // what it says of what is as it should be
	same   int    // how many files and objects that are
}

// PreviewPhases runs phases as a dry run that nobody sees, and keeps what they would change.
func PreviewPhases(ctx context.Context, r *Run, list []Phase) (trial *Run, err error) {
	var out, said bytes.Buffer
	in := r.inputs()
	in.DryRun = true
	streams := Streams{In: r.In, Out: &out, Err: &said, Getenv: r.Getenv}
	if trial, err = New(ctx, r.Machine, in, streams, r.Version); err != nil {
		return nil, err
	}
	trial.Preview = true
	r.Course.Previews = map[string]Preview{}
	for _, p := range list {
		out.Reset()
		said.Reset()
		trial.seen.changed, trial.seen.same = false, 0
		if err := p.Do(ctx, trial); err != nil {
			return nil, err
		}
		found := Preview{Said: said.String(), same: trial.seen.same}
		if trial.Changed() {
			found.Change = cmp.Or(string(kubeadm.MaskSecrets(out.Bytes())), "not shown")
		}
		r.Course.Previews[p.Name] = found
	}
	return trial, nil
}

// journaled runs a phase. In an existing cluster, it is written into the journal before, if it changes something. A
// run that is to change something begins there with its first phase, and holds the Lease from then on; any other writes
// nothing, waits for nobody, and only says what its dry run has found.
func journaled(ctx context.Context, r *Run, p Phase) error {
	if r.DryRun || p.Journal == JournalNever {
		return p.Run(ctx, r)
	}
	return r.Operation.Step(ctx, r, p)
}

// ApplyStep is the step of a phase of apply. It notes what the phase changes.
func ApplyStep(ctx context.Context, r *Run, p Phase) error {
	if r.Course.Previews == nil {
		if _, err := PreviewPhases(ctx, r, []Phase{p}); err != nil {
			return err
		}
	}
	found := r.Course.Previews[p.Name]
	if err := Begin(ctx, r, r.Course.Changes(), journal.Done); err != nil {
		return err
	}
	waits := p.Plan != nil
	if r.Course.Journal == nil && !waits {
		r.seen.same += found.same
		fmt.Fprint(r.Progress(), found.Said)
		return nil
	}
	if r.Course.Journal == nil || found.Change == "" && !waits {
		return p.Run(ctx, r)
	}
	err := JournalStep(ctx, r, p, found.Change, RollbackTo(r))
	if r.Single {
		err = errors.Join(err, r.End(ctx, err))
	}
	return err
}

// JournalStep runs a phase as a step of the journal.
func JournalStep(ctx context.Context, r *Run, p Phase, change, undo string) error {
	node, err := NodeName(r.Host)
	if err != nil {
		return err
	}
	step := journal.Step{Name: p.Name, Node: node, What: p.Short, Change: change, Undo: undo}
	return r.Course.Journal.Do(ctx, step, func(held context.Context) error {
		err := p.Run(held, r)
		sayStopped(ctx, r.Env)
		return err
	})
}

// sayStopped says why a run that was told to stop does not end at once: the API server may be what it was restarting.
func sayStopped(ctx context.Context, env *Env) {
	if ctx.Err() != nil {
		env.Sayf("told to stop: the journal notes it first, and waits up to %s for the API server", journal.LastWords)
	}
}

// OpenRun begins a run, with the record that it can be led back to, or none. It may have to wait for another one.
func OpenRun(ctx context.Context, r *Run, client kubernetes.Interface, before string) error {
	here, err := NodeName(r.Host)
	if err != nil {
		return err
	}
	r.Course.Journal, err = journal.Open(ctx, client, journal.Run{
		Command: r.Command, Line: r.Line, Version: r.Version, Machine: here, Before: before,
		Waiting: func(holder string) {
			r.Sayf("%s has not ended: watched for up to %s, until it is known to live or not", holder, journal.LeaseLasts)
		},
	})
	return err
}

// RollbackTo is the way back of this run.
func RollbackTo(r *Run) string { return "ccmadm " + journal.Rollback(r.Course.Journal.ID(), "") }

// Begin opens the journal where something is to be done, and holds its Lease from then on. The way back of the run is the record
// that it goes by, if the cluster has one. Where that is another one by then, the run is refused, and ends as it is told.
func Begin(ctx context.Context, r *Run, pending bool, refused journal.State) error {
	if r.DryRun || !pending || r.Course.Journal != nil {
		return nil
	}
	before := ""
	rec, err := r.Operation.Record(ctx, r)
	if err != nil {
		return err
	}
	if rec != nil {
		text, err := rec.Encode()
		if err != nil {
			return err
		}
		before = string(text)
	}
	client, err := Connect(r.Env, machine.AdminConf)
	if err != nil {
		return err
	}
	if err := OpenRun(ctx, r, client, before); err != nil {
		return err
	}
	other := refuseOtherRecord(ctx, client, before, r.Line)
	if other == nil {
		return nil
	}
	if refused == journal.Failed {
		return errors.Join(other, r.End(ctx, other))
	}
	return errors.Join(other, r.Close(ctx)) // nothing is left to go on with
}

// refuseOtherRecord finds a record that is not the one that a run goes by, which holds the journal's Lease from now on:
// another run has ended meanwhile. Empty: there was none. The line is what to run again.
func refuseOtherRecord(ctx context.Context, client kubernetes.Interface, before, line string) error {
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
	return finding.Refusedf("begin: the cluster's record changed after this run read it").
		WithHint("another ccmadm command changed it; run %s again. Nothing was changed", cmp.Or(line, "the same command"))
}

// Close ends the run in the journal, if it has begun there, and nothing has failed beside its steps.
func (r *Run) Close(ctx context.Context) error { return r.End(ctx, nil) }

// End is Close of a run that may have failed.
func (r *Run) End(ctx context.Context, failed error) error {
	j := r.Course.Journal
	r.Course.Journal = nil
	if j == nil {
		return nil
	}
	return j.End(ctx, failed)
}

// Do runs all phases of a list, one after the other.
func (r *Run) Do(ctx context.Context, list []Phase) (err error) {
	defer func() { err = AsError(errors.Join(err, r.End(ctx, err))) }()
	for _, p := range list {
		if err := p.Do(ctx, r); err != nil {
			return err
		}
	}
	if err := r.Operation.End(ctx, r); err != nil {
		return err
	}
	r.sayNothingChanged()
	return nil
}

// ControlPlaneClient is how this control plane reaches its cluster, as ccmadm apply does.
func ControlPlaneClient(m *machine.Machine, version string) (kubernetes.Interface, error) {
	return AdminClient(&Env{Machine: m, Version: version})
}
