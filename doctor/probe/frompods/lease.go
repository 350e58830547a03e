package frompods

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// A run renews its Lease every beat. One that does not for as long as silence is dead: it is judged by whether the Lease changes,
// not by its times, since clocks differ.
const (
	beat    = 2 * time.Second
	silence = 10 * time.Second
)

const leaseObject = "Lease/" + v1alpha1.Namespace + "/" + v1alpha1.ProbeName

// hold takes the Lease, from a dead run, too. The error refuses where another run is under way.
func (r *run) hold(ctx context.Context) error {
	leases := r.Client.CoordinationV1().Leases(v1alpha1.Namespace)
	var before *coordinationv1.Lease
	for {
		asking, cancel := context.WithTimeout(ctx, requestTimeout)
		found, err := leases.Get(asking, v1alpha1.ProbeName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			r.lease, err = leases.Create(asking, r.newLease(), metav1.CreateOptions{FieldManager: v1alpha1.FieldManager})
			found = nil
		}
		if err == nil && found != nil && before != nil && before.UID == found.UID && before.ResourceVersion == found.ResourceVersion {
			mine := r.newLease()
			found.Labels, found.Spec = mine.Labels, mine.Spec
			r.lease, err = leases.Update(asking, found, metav1.UpdateOptions{FieldManager: v1alpha1.FieldManager})
			found = nil
		}
		cancel()
		switch {
		case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err): // another run was faster
			return underWay("another user")
		case err != nil:
			return fmt.Errorf("take %s: %w", leaseObject, err)
		case found == nil:
			return nil
		case before != nil:
			return underWay(ptr.Deref(found.Spec.HolderIdentity, "another user"))
		}
		before = found
		r.tell("looking whether another probe is under way, by %s", ptr.Deref(found.Spec.HolderIdentity, "an unknown user"))
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", leaseObject, context.Cause(ctx))
		case <-time.After(silence):
		}
	}
}

func underWay(holder string) error {
	return finding.Refusedf("another probe is under way, by %s, which holds %s", finding.Clean(holder), leaseObject).
		WithHint("only one probe runs at a time: run the same command again when it has ended")
}

func (r *run) newLease() *coordinationv1.Lease {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: v1alpha1.Namespace, Name: v1alpha1.ProbeName,
		Labels: map[string]string{v1alpha1.ManagedByLabel: v1alpha1.FieldManager, v1alpha1.ProbeLabel: r.id},
	}}
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = &r.Holder, new(int32(silence.Seconds()))
	l.Spec.RenewTime = new(metav1.NowMicro())
	return l
}

// errTaken is why a run ends that another one took for dead: its Lease was not renewed for too long.
var errTaken = errors.New("another probe has taken " + leaseObject + ", which this one could not renew")

// renew says that the run is under way until ctx ends, and closes done then. A renewal that is missed is made up for by the next. Where
// the Lease is another run's, lost is told.
func (r *run) renew(ctx context.Context, done chan<- struct{}, lost context.CancelCauseFunc) {
	defer close(done)
	leases := r.Client.CoordinationV1().Leases(v1alpha1.Namespace)
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, beat)
		defer cancel()
		next := r.lease.DeepCopy()
		next.Spec.RenewTime = new(metav1.NowMicro())
		written, err := leases.Update(ctx, next, metav1.UpdateOptions{FieldManager: v1alpha1.FieldManager})
		if apierrors.IsConflict(err) { // the answer to the last one was lost, or it is another run's
			written, err = leases.Get(ctx, v1alpha1.ProbeName, metav1.GetOptions{})
		}
		switch {
		case apierrors.IsNotFound(err), err == nil && !r.holds(written):
			lost(errTaken)
		case err == nil:
			r.lease = written
		}
	}, beat)
}

// holds reports whether a Lease is this run's.
func (r *run) holds(found *coordinationv1.Lease) bool {
	return found.Labels[v1alpha1.ProbeLabel] == r.id
}

// release deletes the Lease, if it is still this run's.
func (r *run) release(ctx context.Context) error {
	leases := r.Client.CoordinationV1().Leases(v1alpha1.Namespace)
	return retry(ctx, func(ctx context.Context) error {
		found, err := leases.Get(ctx, v1alpha1.ProbeName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && !r.holds(found) {
			return nil
		}
		if err == nil {
			err = leases.Delete(ctx, v1alpha1.ProbeName, metav1.DeleteOptions{
				Preconditions: &metav1.Preconditions{UID: &found.UID, ResourceVersion: &found.ResourceVersion},
			})
		}
		if err == nil || apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("delete %s: %w", leaseObject, err)
	})
}

// removePods deletes the pods of all runs, which there are only of dead ones where this one holds the Lease and has made none, or
// has ended. Where another run holds the Lease, it deletes those of this one only.
func (r *run) removePods(ctx context.Context, own bool) error {
	pods := r.Client.CoreV1().Pods(v1alpha1.Namespace)
	return retry(ctx, func(ctx context.Context) error {
		list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.ProbeLabel})
		if err != nil {
			return fmt.Errorf("list pods of probes: %w", err)
		}
		var errs []error
		for i := range list.Items {
			p := &list.Items[i]
			made := strings.HasPrefix(p.Name, v1alpha1.ProbeName+"-") // labels are copied, names are not
			if made && (!own || strings.HasSuffix(p.Name, "-"+r.id)) {
				errs = append(errs, r.deletePod(ctx, p.Name, string(p.UID)))
			}
		}
		return errors.Join(errs...)
	})
}

// retry asks again until ctx ends. The error is the last one.
func retry(ctx context.Context, do func(context.Context) error) error {
	var last error
	for {
		asking, cancel := context.WithTimeout(ctx, requestTimeout)
		err := do(asking)
		cancel()
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || ctx.Err() != nil {
			return last
		}
		select {
		case <-ctx.Done():
			return last
		case <-time.After(often):
		}
	}
}
