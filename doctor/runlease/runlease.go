// Package runlease keeps two runs of a command apart by a Lease of coordination.k8s.io: it exists while a run is under way, which
// renews it. The journal, doctor --probe, lb test and rehearse have one each.
//
// Start at [Lease.Take] and [Lease.Renew]; [Lease.Watch] looks at the Lease of another run. Whether that run is dead is judged by
// whether its Lease changes, never by the times in it: no two clocks are compared. Time in which the API server does not answer does
// not count, since no run can renew its Lease then.
//
// Reads, writes: one Lease. It will not: take an API server that does not answer for a Lease that is gone, or write to the Lease of
// another run that renews it.
package runlease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

const (
	// Lasts is how long a Lease goes without a renewal until its run is dead, where a run has no time of its own.
	Lasts = 10 * time.Second
	// LookEvery is the time between two looks at the Lease of another run.
	LookEvery = time.Second
	// renewals is how many there are while a Lease lasts: some may fail.
	renewals = 5
)

// ErrLost says that a run's Lease is another's, or gone. An API server that does not answer does not say so.
var ErrLost = errors.New("another run may be under way")

// Lease is that of one run.
type Lease struct {
	Client          kubernetes.Interface
	Namespace, Name string
	// Holder says for people who runs. A Lease with the Holder and the Labels of this run is its own: one of them has to be of this run
	// alone.
	Holder string
	Labels map[string]string
	// Lasts is whole seconds.
	Lasts time.Duration
	// Ask sends a request of Take and Watch, if need be again.
	Ask func(ctx context.Context, request func(context.Context) error) error
	// Waiting is told of the holder of a Lease that Take finds, before it is watched; may be nil.
	Waiting func(holder string)
	// Refuse is the error of Take where the holder's run is under way.
	Refuse func(holder string) error
}

// Take makes the Lease this run's and returns it as it is written. A Lease that has a holder is watched first. The error is that of
// Refuse where that one renews it, or what the API server says.
func (l *Lease) Take(ctx context.Context) (*coordinationv1.Lease, error) {
	for {
		found, err := l.look(ctx)
		if err != nil || l.owns(found) { // it is there already if the answer to an earlier request was lost
			return found, err
		}
		if holder := heldBy(found); holder != "" {
			if l.Waiting != nil {
				l.Waiting(holder)
			}
			var alive bool
			if found, alive, err = l.Watch(ctx); err != nil {
				return nil, err
			}
			if holder = heldBy(found); alive && holder != "" {
				return nil, l.Refuse(holder)
			}
		}
		var written *coordinationv1.Lease
		err = l.Ask(ctx, func(ctx context.Context) (err error) {
			written, err = l.write(ctx, found)
			if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || found.UID != "" && apierrors.IsNotFound(err) {
				written, err = nil, nil // another run was faster, or an answer was lost
			}
			return err
		})
		if err != nil || written != nil {
			return written, err
		}
	}
}

// Watch returns the Lease, an empty one where there is none, and whether a run is under way: it renews the Lease, or makes it. None is
// where the Lease has stayed as it is for as long as it lasts, or goes.
func (l *Lease) Watch(ctx context.Context) (found *coordinationv1.Lease, alive bool, err error) {
	seen, err := l.look(ctx)
	for since := time.Now(); err == nil; { // by this machine's clock
		select {
		case <-ctx.Done():
			return nil, false, fmt.Errorf("wait for %s: %w", l, context.Cause(ctx))
		case <-time.After(LookEvery):
		}
		asked := time.Now()
		found, err = l.look(ctx)
		switch {
		case err != nil:
		case !Unchanged(seen, found):
			return found, found.UID != "", nil
		case time.Since(asked) > l.Lasts/3: // while it could not be looked at, it could not be renewed
			since = time.Now()
		case asked.Sub(since) > l.Lasts:
			return found, false, nil
		}
	}
	return nil, false, err
}

// Unchanged reports whether no one has written the Lease between two looks.
func Unchanged(a, b *coordinationv1.Lease) bool {
	return a.UID == b.UID && a.ResourceVersion == b.ResourceVersion
}

// Holder is for people who holds a Lease.
func Holder(l *coordinationv1.Lease) string { return cmp.Or(heldBy(l), "an unknown user") }

// heldBy is empty where no one holds the Lease.
func heldBy(l *coordinationv1.Lease) string { return ptr.Deref(l.Spec.HolderIdentity, "") }

// Renew says that the run is under way: until ctx ends, when it returns nil, or until the Lease is lost, when it returns [ErrLost]. A
// renewal that fails, or whose answer is lost, is made up for by the next. Live is the Lease as it was taken; nil is as it is found.
func (l *Lease) Renew(ctx context.Context, live *coordinationv1.Lease) error {
	for {
		limited, cancel := context.WithTimeout(ctx, l.Lasts/renewals)
		written, err := l.RenewOnce(limited, live)
		cancel()
		if errors.Is(err, ErrLost) {
			return err
		}
		if err == nil {
			live = written
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(l.Lasts / renewals):
		}
	}
}

// RenewOnce writes the time into the Lease, over live, and returns it as it is then. It asks without patience.
func (l *Lease) RenewOnce(ctx context.Context, live *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	if live != nil {
		written, err := l.write(ctx, live)
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return written, err
		}
	}
	found, err := l.get(ctx) // the answer to the last renewal was lost, or it is another run's
	switch {
	case err != nil:
		return nil, err
	case found.UID == "" || l.owns(found) && live != nil && live.UID != found.UID:
		return nil, fmt.Errorf("%s was deleted; %w", l, ErrLost)
	case !l.owns(found):
		return nil, fmt.Errorf("%s holds %s; %w", cmp.Or(heldBy(found), "no one"), l, ErrLost)
	}
	return l.write(ctx, found)
}

// Release deletes the Lease, if it is still this run's. It asks without patience.
func (l *Lease) Release(ctx context.Context) error {
	found, err := l.get(ctx)
	if err != nil || !l.owns(found) {
		return err
	}
	only := metav1.Preconditions{UID: &found.UID, ResourceVersion: &found.ResourceVersion}
	switch err = l.leases().Delete(ctx, l.Name, metav1.DeleteOptions{Preconditions: &only}); {
	case err == nil, apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err): // with a renewal that was on its way
		return l.Release(ctx)
	}
	return fmt.Errorf("delete %s: %w", l, err)
}

// String names the object.
func (l *Lease) String() string { return "Lease/" + l.Namespace + "/" + l.Name }

func (l *Lease) leases() coordinationclient.LeaseInterface {
	return l.Client.CoordinationV1().Leases(l.Namespace)
}

// owns reports whether a Lease is this run's.
func (l *Lease) owns(found *coordinationv1.Lease) bool {
	for key, value := range l.Labels {
		if found.Labels[key] != value {
			return false
		}
	}
	return heldBy(found) == l.Holder
}

func (l *Lease) look(ctx context.Context) (found *coordinationv1.Lease, err error) {
	err = l.Ask(ctx, func(ctx context.Context) (err error) {
		found, err = l.get(ctx)
		return err
	})
	return found, err
}

// get returns the Lease, an empty one where there is none.
func (l *Lease) get(ctx context.Context) (*coordinationv1.Lease, error) {
	found, err := l.leases().Get(ctx, l.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return &coordinationv1.Lease{}, nil
	case err != nil:
		return nil, fmt.Errorf("ask for %s: %w", l, err)
	}
	return found, nil
}

// write writes the Lease once, over what is there.
func (l *Lease) write(ctx context.Context, over *coordinationv1.Lease) (written *coordinationv1.Lease, err error) {
	next, now := over.DeepCopy(), metav1.NowMicro()
	if !l.owns(over) {
		next.Spec.AcquireTime = &now
	}
	next.Namespace, next.Name = l.Namespace, l.Name
	metav1.SetMetaDataLabel(&next.ObjectMeta, v1alpha1.ManagedByLabel, v1alpha1.FieldManager)
	for key, value := range l.Labels {
		metav1.SetMetaDataLabel(&next.ObjectMeta, key, value)
	}
	next.Spec.HolderIdentity, next.Spec.RenewTime = &l.Holder, &now
	next.Spec.LeaseDurationSeconds = new(int32(l.Lasts.Seconds()))
	if over.UID == "" {
		written, err = l.leases().Create(ctx, next, metav1.CreateOptions{FieldManager: v1alpha1.FieldManager})
	} else {
		written, err = l.leases().Update(ctx, next, metav1.UpdateOptions{FieldManager: v1alpha1.FieldManager})
	}
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", l, err)
	}
	return written, nil
}
