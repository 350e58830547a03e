package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/runlease"
)

// keep renews the Lease until it is given back or lost, also while the run that was told to stop writes its end.
func (l *lease) keep(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	go func() {
		defer close(l.done)
		for {
			select {
			case <-l.ended:
				return
			case <-time.After(renewEvery):
			}
			ctx, cancel := context.WithTimeout(ctx, renewEvery)
			if err := l.renew(ctx); isLost(err) {
				l.end(err)
			}
			cancel()
		}
	}()
}

// end notes why the Lease is ours no more, if it is not noted yet.
func (l *lease) end(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.why == nil {
		l.why = why
		close(l.ended)
	}
}

// cause is why the Lease is ours no more; nil: it is.
func (l *lease) cause() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.why
}

// isLost says that the Lease is another's, or gone: an API server that does not answer does not say so.
func isLost(err error) bool { return errors.Is(err, runlease.ErrLost) }

// renew writes the time into the Lease, if it is ours.
func (l *lease) renew(ctx context.Context) error {
	l.mu.Lock()
	over := l.live
	l.mu.Unlock()
	live, err := l.of.RenewOnce(ctx, over)
	if err != nil {
		return fmt.Errorf("go on: %w", err)
	}
	l.note(live)
	return nil
}

// check returns nil where the Lease is ours: it asks where the last renewal was some time ago.
func (l *lease) check(ctx context.Context) error {
	if err := l.cause(); err != nil {
		return lostRefusal(err)
	}
	l.mu.Lock()
	age := time.Since(l.renewed)
	l.mu.Unlock()
	if age < trusted {
		return nil
	}
	return l.confirm(ctx)
}

// confirm asks whether the Lease is ours: somebody else has written what only its holder may.
func (l *lease) confirm(ctx context.Context) error {
	return Ask(ctx, func(ctx context.Context) error {
		err := l.renew(ctx)
		if isLost(err) {
			l.end(err)
			return lostRefusal(err)
		}
		return err
	})
}

func lostRefusal(err error) error {
	return finding.Refusedf("%w", err).WithHint("ccmadm journal shows the runs and their steps")
}

// whileHeld is ctx until the Lease is lost.
func (l *lease) whileHeld(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-l.ended:
			cancel(l.cause())
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// giveBack deletes the Lease, if it is still ours.
func (l *lease) giveBack(ctx context.Context) error {
	lost := isLost(l.cause())
	l.end(errors.New("the run has ended"))
	<-l.done
	if lost {
		return nil
	}
	return Ask(ctx, l.of.Release)
}
