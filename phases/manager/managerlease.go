package manager

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// RemoveManagerLease deletes the Lease that the manager has left. A vendor's manager may have come meanwhile, and lead
// by the same one: what somebody renews is kept.
func RemoveManagerLease(ctx context.Context, r *workflow.Run) error {
	s, err := r.Settings(ctx)
	if err != nil {
		return err
	}
	client, err := workflow.Connect(r.Env, machine.AdminConf)
	if err != nil {
		return err
	}
	name := s.Profile.LeaseName()
	subject := "Lease/" + v1alpha1.Namespace + "/" + name
	lease, held, err := watchLease(ctx, r.Env, client, name)
	if err != nil {
		return finding.Errorf("check whether a cloud-controller-manager renews %s: %w", subject, err).WithHint("run the same command again: it resumes")
	}
	switch {
	case lease == nil:
		return nil
	case held:
		r.Sayf("%s is kept: %s renews it", subject, finding.Clean(ptr.Deref(lease.Spec.HolderIdentity, "")))
		return nil
	}
	taken, err := dropLease(ctx, client, lease)
	switch {
	case err != nil:
		return err
	case taken:
		r.Sayf("%s is kept: it was taken meanwhile", subject)
		return nil
	}
	r.Sayf("%s removed", subject)
	return nil
}

// dropLease deletes a Lease that nobody was seen to renew, unless somebody has taken it meanwhile.
func dropLease(ctx context.Context, client kubernetes.Interface, lease *coordinationv1.Lease) (taken bool, err error) {
	err = journal.Ask(ctx, func(ctx context.Context) error {
		err := client.CoordinationV1().Leases(lease.Namespace).Delete(ctx, lease.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion},
		})
		if taken = apierrors.IsConflict(err); taken || apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	if err != nil {
		return false, finding.Errorf("remove Lease/%s/%s: %w", lease.Namespace, lease.Name, err).
			WithHint("run the same command again: it resumes")
	}
	return taken, nil
}

// RefuseLeader finds a manager that somebody else has brought, or that runs outside of the cluster: it renews its
// Lease. One that has ended may have left it held: that Lease is returned.
func RefuseLeader(
	ctx context.Context, env *workflow.Env, client kubernetes.Interface, name, hint string,
) (*coordinationv1.Lease, error) {
	lease, held, err := watchLease(ctx, env, client, name)
	if err != nil {
		return nil, finding.Errorf("check whether a cloud-controller-manager leads: %w", err).WithHint("run the same command again: it resumes")
	}
	if held {
		return nil, managerAtWork(lease).WithHint("%s", hint)
	}
	return lease, nil
}

func managerAtWork(lease *coordinationv1.Lease) *finding.Error {
	return finding.Refusedf("another cloud-controller-manager is running: %s renews Lease/%s/%s",
		finding.Clean(ptr.Deref(lease.Spec.HolderIdentity, "")), lease.Namespace, lease.Name)
}

// EndLease waits until nobody can lead any more, and removes the Lease that a manager has left which does not release
// it: the next one would have to see it through once more, and nobody leads meanwhile. One that was not watched for as
// long as it lasts stays: its holder may live.
func EndLease(ctx context.Context, env *workflow.Env, client kubernetes.Interface, name string) error {
	const hint = "stop it and run the same command again: it resumes; `ccmadm apply` restores the former one"
	lease, err := RefuseLeader(ctx, env, client, name, hint)
	if err != nil || isFree(lease) || leaseSeconds(lease) > longestWatch {
		return err
	}
	taken, err := dropLease(ctx, client, lease)
	if err == nil && taken {
		return managerAtWork(lease).WithHint("%s", hint)
	}
	return err
}

func isFree(lease *coordinationv1.Lease) bool {
	return lease == nil || ptr.Deref(lease.Spec.HolderIdentity, "") == ""
}

// askLease returns a Lease; nil: there is none.
func askLease(ctx context.Context, client kubernetes.Interface, name string) (lease *coordinationv1.Lease, err error) {
	err = journal.Ask(ctx, func(ctx context.Context) (err error) {
		lease, err = client.CoordinationV1().Leases(v1alpha1.Namespace).Get(ctx, name, metav1.GetOptions{})
		return err
	})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return lease, err
}

// takeOver is for a manager that has just been started, which asks for its former Lease every two to four seconds, and
// has it only as long behind its first look as it lasts (k8s.io/client-go/tools/leaderelection, RetryPeriod).
const takeOver = 10 * time.Second

// watchLease returns a Lease, nil where there is none, and whether its holder renews it. No clocks are compared: it is
// watched for as long as it lasts, and beyond that until another one would have taken it over. A time in which the API
// server did not answer does not count.
func watchLease(
	ctx context.Context, env *workflow.Env, client kubernetes.Interface, name string,
) (first *coordinationv1.Lease, held bool, err error) {
	var since time.Time
	for {
		asked := time.Now()
		now, err := askLease(ctx, client, name)
		switch {
		case err != nil:
			return nil, false, err
		case isFree(now):
			return now, false, nil
		case first == nil:
			first, since = now, time.Now()
			env.Sayf("Lease/%s/%s is watched for %s, until it is known whether %s lives", v1alpha1.Namespace, name,
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

// longestWatch is for a duration that was written by mistake: it keeps nobody waiting for longer.
const longestWatch = time.Minute

// leaseLasts is for how long a Lease is watched before it could be another's.
func leaseLasts(l *coordinationv1.Lease) time.Duration {
	return min(max(leaseSeconds(l), time.Second), longestWatch)
}

func leaseSeconds(l *coordinationv1.Lease) time.Duration {
	return time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, 15)) * time.Second
}
