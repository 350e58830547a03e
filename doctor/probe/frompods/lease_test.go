package frompods

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/runlease"
)

// beat is the time between two renewals of a Lease.
const beat = runlease.Lasts / 5

// holds reports whether a Lease is this run's.
func (r *run) holds(found *coordinationv1.Lease) bool {
	return found.Labels[v1alpha1.ProbeLabel] == r.id
}

func (r *run) newLease() *coordinationv1.Lease {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: v1alpha1.Namespace, Name: v1alpha1.ProbeName,
		Labels: map[string]string{v1alpha1.ManagedByLabel: v1alpha1.FieldManager, v1alpha1.ProbeLabel: r.id},
	}}
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = &r.Holder, new(int32(runlease.Lasts.Seconds()))
	return l
}
