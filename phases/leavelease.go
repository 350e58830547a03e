package phases

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/machine"
)

// removeManagerLease deletes the Lease that the manager has left. A vendor's manager may have come meanwhile, and lead
// by the same one: what somebody renews is kept.
func removeManagerLease(ctx context.Context, d *Data) error {
	s, err := d.Settings(ctx)
	if err != nil {
		return err
	}
	client, err := connect(d, machine.AdminConf)
	if err != nil {
		return err
	}
	name := s.Profile.LeaseName()
	subject := "Lease/" + v1alpha1.Namespace + "/" + name
	lease, held, err := watchLease(ctx, d, client, name)
	if err != nil {
		return finding.Errorf("look whether somebody renews %s: %w", subject, err).WithHint("the same command goes on")
	}
	switch {
	case lease == nil:
		return nil
	case held:
		d.Sayf("%s is kept: %s renews it", subject, finding.Clean(ptr.Deref(lease.Spec.HolderIdentity, "")))
		return nil
	}
	err = client.CoordinationV1().Leases(v1alpha1.Namespace).Delete(ctx, name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion},
	})
	switch {
	case apierrors.IsConflict(err):
		d.Sayf("%s is kept: it was taken meanwhile", subject)
		return nil
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("remove %s: %w", subject, err)
	}
	d.Sayf("%s removed", subject)
	return nil
}

// takeOver is for a manager that has just been started, which asks for its former Lease every two to four seconds, and
// has it only as long behind its first look as it lasts (k8s.io/client-go/tools/leaderelection, RetryPeriod).
const takeOver = 10 * time.Second

// watchLease returns a Lease, nil where there is none, and whether its holder renews it. No clocks are compared: it is
// watched for as long as it lasts, and until another one would have taken it over. A time in which the API server did
// not answer does not count.
func watchLease(
	ctx context.Context, d *Data, client kubernetes.Interface, name string,
) (first *coordinationv1.Lease, held bool, err error) {
	var since time.Time
	for {
		asked := time.Now()
		var now *coordinationv1.Lease
		err := journal.Ask(ctx, func(ctx context.Context) (err error) {
			now, err = client.CoordinationV1().Leases(v1alpha1.Namespace).Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				now, err = nil, nil
			}
			return err
		})
		switch {
		case err != nil:
			return nil, false, err
		case now == nil || ptr.Deref(now.Spec.HolderIdentity, "") == "":
			return now, false, nil
		case first == nil:
			first, since = now, time.Now()
			d.Sayf("Lease/%s/%s is watched for %s, until it is known whether %s lives", v1alpha1.Namespace, name,
				leaseLasts(now)+takeOver, finding.Clean(*now.Spec.HolderIdentity))
		case now.UID != first.UID || now.ResourceVersion != first.ResourceVersion:
			return now, true, nil
		case time.Since(asked) > leaseLasts(first)/3:
			since = time.Now()
		case time.Since(since) > leaseLasts(first)+takeOver:
			return first, false, nil
		}
		select {
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		case <-time.After(time.Second):
		}
	}
}

// leaseLasts is for how long a Lease must go without a renewal until it is another's; what is written there by mistake
// keeps nobody waiting for more than a minute.
func leaseLasts(l *coordinationv1.Lease) time.Duration {
	seconds := time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, 15)) * time.Second
	return min(max(seconds, time.Second), time.Minute)
}
