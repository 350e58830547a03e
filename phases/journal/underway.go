package journal

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/runlease"
)

// Progress is what is known of a run that is Begun.
type Progress int

const (
	// NotKnown means that the Lease is the run's, and was not watched long enough to tell.
	NotKnown Progress = iota
	// UnderWay means that the run has renewed its Lease.
	UnderWay
	// Stopped means that the run holds no Lease, or has not renewed it for LeaseLasts.
	Stopped
)

// WatchLease is the patience with which [Renewals.UnderWay] always has an answer, if the API server does.
const WatchLease = LeaseLasts + 2*runlease.LookEvery

// Renewals is what was seen of the Lease of one cluster's runs. It keeps that between looks, so that a later look need not watch
// the Lease again. The zero value has seen nothing. It is safe for several goroutines.
type Renewals struct {
	mu sync.Mutex
	// seen is the Lease as it was at since and at each look after it; last is the time of the last of these. Both are by this
	// machine's clock: no two clocks are compared.
	seen        *coordinationv1.Lease
	since, last time.Time
}

// UnderWay tells whether a run renews its Lease. It watches the Lease for at most patience, less what earlier looks have seen; with
// a patience of 0 it looks once. The answer is NotKnown where that is too short. The error says that the Lease could not be read, or
// that ctx has ended: the answer is NotKnown then, too, and the time before it does not count, as no run can renew a Lease while
// the API server does not answer.
func (w *Renewals) UnderWay(ctx context.Context, client kubernetes.Interface, run *Run, patience time.Duration) (Progress, error) {
	if run.State != Begun {
		return Stopped, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for deadline := time.Now().Add(patience); ; {
		found, err := client.CoordinationV1().Leases(v1alpha1.Namespace).Get(ctx, v1alpha1.RunLeaseName, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			w.seen = nil
			return Stopped, nil
		case err != nil:
			w.seen = nil
			return NotKnown, fmt.Errorf("ask for %s: %w", leaseObject, err)
		}
		if progress := w.note(found, run, time.Now()); progress != NotKnown || !time.Now().Before(deadline) {
			return progress, nil
		}
		select {
		case <-ctx.Done():
			return NotKnown, fmt.Errorf("watch %s: %w", leaseObject, context.Cause(ctx))
		case <-time.After(min(runlease.LookEvery, time.Until(deadline))):
		}
	}
}

// note compares the Lease with what was seen of it.
func (w *Renewals) note(found *coordinationv1.Lease, run *Run, now time.Time) Progress {
	seen, last := w.seen, w.last
	if seen == nil || !runlease.Unchanged(seen, found) {
		w.seen, w.since = found, now
	}
	w.last = now
	switch {
	case ptr.Deref(found.Spec.HolderIdentity, "") != run.Holder:
		return Stopped
	case seen == nil || ptr.Deref(seen.Spec.HolderIdentity, "") != run.Holder:
		return NotKnown
	case w.since.Equal(now) && now.Sub(last) <= LeaseLasts: // it was renewed since the last look, which is not long ago
		return UnderWay
	case now.Sub(w.since) > LeaseLasts:
		return Stopped
	}
	return NotKnown
}
