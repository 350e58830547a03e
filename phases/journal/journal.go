// Package journal writes down what a command does to a cluster before it does it, and keeps a second command from doing
// something else at the same time.
//
// Start at [Open] and [Journal.Do]; [Read] is for those who look.
//
// Reads: the ConfigMap ccmadm-journal and the Lease ccmadm-run in kube-system.
// Writes: the same. The Lease is there while a run is, and renewed in the background; it is deleted at the end, and
// left by a run that was cut short. A step is in the ConfigMap before it is begun: what cannot be written is not done.
// The newest runs are kept, in less than a megabyte, and of others what did not succeed. It will not: undo anything,
// take an API server's silence for an empty journal, or go on with a journal that was edited by hand or that a newer
// version has written.
package journal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Journal is that of one run, which holds the Lease. Its methods may be called at the same time.
type Journal struct {
	store store
	lease *lease

	mu  sync.Mutex // run, and one writer of the store at a time
	run Run
}

// LastWords is how long an end may take to be written, also when the run was told to stop: an API server may be
// restarting.
const LastWords = time.Minute

// Open takes the Lease, and begins a run in the journal. While another run renews the Lease it is refused, and names
// that run. A Lease that is not renewed is taken once nobody was seen to renew it for as long as it lasts, 15 seconds:
// its holder was cut short. End gives it back.
func Open(ctx context.Context, client kubernetes.Interface, run Run) (*Journal, error) {
	j := &Journal{store: store{client: client}, run: run}
	if _, err := j.store.load(ctx); err != nil {
		return nil, err
	}
	j.lease = newLease(client, run)
	j.run.Holder = j.lease.of.Holder
	if err := j.lease.take(ctx); err != nil {
		return nil, err
	}
	j.run.State, j.run.Began, j.run.Steps = Begun, now(), nil
	if err := j.begin(ctx); err != nil {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), LastWords)
		defer cancel()
		return nil, errors.Join(err, j.lease.giveBack(last))
	}
	return j, nil
}

// begin gives the run the next ID. Whoever held the Lease before finds that the journal is another's by now.
func (j *Journal) begin(ctx context.Context) error {
	runs, err := j.store.load(ctx)
	if err != nil {
		return err
	}
	j.run.ID = 1
	if n := len(runs); n > 0 {
		j.run.ID = runs[n-1].ID + 1
	}
	return j.store.save(ctx, j.run, j.lease.confirm)
}

// ID is that of the run.
func (j *Journal) ID() int { return j.run.ID }

// Do writes step as begun, runs it, and writes how it ended. Its error is that of run. Where the beginning cannot be
// written, or the Lease is another's by now, run is not called; its context ends when the Lease is lost.
func (j *Journal) Do(ctx context.Context, step Step, run func(context.Context) error) error {
	var at int
	step.State, step.Began, step.Ended, step.Error = Begun, now(), nil, ""
	step.Change = cut(step.Change, maxChange)
	err := j.change(ctx, func(r *Run) {
		at = len(r.Steps)
		r.Steps = append(r.Steps, step)
	})
	if err != nil {
		return fmt.Errorf("write step %s into the journal, so it was not begun: %w", step.Name, err)
	}
	ctx, stop := j.lease.whileHeld(ctx)
	failed := run(ctx)
	stop()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), LastWords)
	defer cancel()
	err = j.change(last, func(r *Run) { r.Steps[at].end(now(), failed) })
	if err != nil {
		err = fmt.Errorf("write the end of step %s into the journal: %w", step.Name, err)
	}
	return errors.Join(failed, err)
}

// Close is the end of a run of which nothing has failed beside its steps.
func (j *Journal) Close(ctx context.Context) error { return j.End(ctx, nil) }

// End writes the run's end, and gives the Lease back. It is a failed one if the run has failed, which it may between
// two steps, or if a step of it failed or has no end.
func (j *Journal) End(ctx context.Context, failed error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), LastWords)
	defer cancel()
	err := j.change(ctx, func(r *Run) {
		t := now()
		r.State, r.Ended = Done, &t
		if failed != nil {
			r.State = Failed
		}
		for _, s := range r.Steps {
			if s.State != Done {
				r.State = Failed
			}
		}
	})
	if err != nil {
		err = fmt.Errorf("write the end of run %d into the journal: %w", j.run.ID, err)
	}
	return errors.Join(err, j.lease.giveBack(ctx))
}

// change writes what edit makes of the run; where that fails, the run stays as it was.
func (j *Journal) change(ctx context.Context, edit func(*Run)) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.lease.check(ctx); err != nil {
		return err
	}
	next := j.run.copied()
	edit(&next)
	if err := j.store.save(ctx, next, j.lease.confirm); err != nil {
		return err
	}
	j.run = next
	return nil
}

// Read returns the runs, oldest first. Without a journal there are none; without an answer there is an error.
func Read(ctx context.Context, client kubernetes.Interface) ([]Run, error) {
	s := store{client: client}
	return s.load(ctx)
}

func now() metav1.Time { return metav1.NewTime(time.Now().UTC().Truncate(time.Second)) }
