package phases

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
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
	lease, held, err := watchLease(ctx, d, client, name, takeOver)
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
	taken, err := dropLease(ctx, client, lease)
	switch {
	case err != nil:
		return err
	case taken:
		d.Sayf("%s is kept: it was taken meanwhile", subject)
		return nil
	}
	d.Sayf("%s removed", subject)
	return nil
}

// dropLease deletes a Lease that nobody was seen to renew, unless somebody has taken it meanwhile.
func dropLease(ctx context.Context, client kubernetes.Interface, lease *coordinationv1.Lease) (taken bool, err error) {
	err = client.CoordinationV1().Leases(lease.Namespace).Delete(ctx, lease.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion},
	})
	if apierrors.IsConflict(err) {
		return true, nil
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("remove Lease/%s/%s: %w", lease.Namespace, lease.Name, err)
	}
	return false, nil
}

// refuseLeader finds a manager that somebody else has brought, or that runs outside of the cluster: it renews its
// Lease. One that has ended may have left it held: that Lease is returned.
func refuseLeader(
	ctx context.Context, d *Data, client kubernetes.Interface, name string, beyond time.Duration, hint string,
) (*coordinationv1.Lease, error) {
	lease, held, err := watchLease(ctx, d, client, name, beyond)
	if err != nil {
		return nil, finding.Errorf("look whether somebody leads: %w", err).WithHint("the same command goes on")
	}
	if held {
		return nil, atWork(lease).WithHint("%s", hint)
	}
	return lease, nil
}

func atWork(lease *coordinationv1.Lease) *finding.Error {
	return finding.Refusedf("another cloud-controller-manager is at work: %s renews Lease/%s/%s",
		finding.Clean(ptr.Deref(lease.Spec.HolderIdentity, "")), lease.Namespace, lease.Name)
}

// endLease waits until nobody can lead any more, and removes the Lease that a manager has left which does not release
// it: the next one would have to see it through once more, and nobody leads meanwhile. Where its holder was one of the
// pods that have ended, it is enough that it runs out.
func endLease(ctx context.Context, d *Data, client kubernetes.Interface, name string, ended []corev1.Pod) error {
	const hint = "stop it, and the same command goes on; `ccmadm apply` brings the former one back"
	beyond := takeOver
	first, err := askLease(ctx, client, name)
	if err != nil {
		return finding.Errorf("look whether somebody leads: %w", err).WithHint("the same command goes on")
	}
	if slices.ContainsFunc(ended, func(p corev1.Pod) bool { return isHolder(first, &p) }) {
		beyond = 0
	}
	lease, err := refuseLeader(ctx, d, client, name, beyond, hint)
	if err != nil || isFree(lease) {
		return err
	}
	taken, err := dropLease(ctx, client, lease)
	if err == nil && taken {
		return atWork(lease).WithHint("%s", hint)
	}
	return err
}

// isHolder goes by the name of the host, which upstream's managers begin their identity with: the pod's, or on the
// machine's network the machine's.
func isHolder(lease *coordinationv1.Lease, p *corev1.Pod) bool {
	if isFree(lease) {
		return false
	}
	host, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	return host == p.Name || p.Spec.HostNetwork && host == p.Spec.NodeName
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
	ctx context.Context, d *Data, client kubernetes.Interface, name string, beyond time.Duration,
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
			d.Sayf("Lease/%s/%s is watched for %s, until it is known whether %s lives", v1alpha1.Namespace, name,
				leaseLasts(now)+beyond, finding.Clean(*now.Spec.HolderIdentity))
		case now.UID != first.UID || now.ResourceVersion != first.ResourceVersion:
			return now, true, nil
		case time.Since(asked) > leaseLasts(first)/3:
			since = time.Now()
		case time.Since(since) > leaseLasts(first)+beyond:
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
