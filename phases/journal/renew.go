package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
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

// lostError says that the Lease is another's, or gone: an API server that does not answer does not say so.
type lostError struct{ why string }

func (e *lostError) Error() string { return "go on: " + e.why + "; another run may be under way" }

func isLost(err error) bool {
	var lost *lostError
	return errors.As(err, &lost)
}

// renew writes the time into the Lease, if it is ours.
func (l *lease) renew(ctx context.Context) error {
	l.mu.Lock()
	over := l.live
	l.mu.Unlock()
	err := l.write(ctx, over)
	if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return err
	}
	found, err := l.leases.Get(ctx, v1alpha1.RunLeaseName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return &lostError{leaseObject + " was deleted"}
	case err != nil:
		return fmt.Errorf("ask for %s: %w", leaseObject, err)
	case ptr.Deref(found.Spec.HolderIdentity, "") != l.holder:
		return &lostError{ptr.Deref(found.Spec.HolderIdentity, "no one") + " holds " + leaseObject}
	}
	l.note(found)
	return l.write(ctx, found)
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
	return Ask(ctx, func(ctx context.Context) error {
		found, err := l.leases.Get(ctx, v1alpha1.RunLeaseName, metav1.GetOptions{})
		if err == nil {
			if ptr.Deref(found.Spec.HolderIdentity, "") != l.holder {
				return nil
			}
			err = l.leases.Delete(ctx, found.Name, metav1.DeleteOptions{
				Preconditions: &metav1.Preconditions{UID: &found.UID, ResourceVersion: &found.ResourceVersion},
			})
		}
		if err == nil || apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("give back %s: %w", leaseObject, err)
	})
}
