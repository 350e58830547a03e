package failover

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// lookTimeout is for the API server's answer. One that takes longer may be one that kubelets cannot reach, either.
	lookTimeout = 2 * time.Second
	// usualLease is what kubelets write in their Leases (leaseDurationSeconds), which they renew four times as often, and
	// up to 4 % later (k8s.io/component-helpers/apimachinery/lease).
	usualLease = 40 * time.Second
	// shortest and longest time in which one is renewed, whatever it says.
	shortest, longest = 10 * time.Second, time.Minute
	// slack is added to it, for an API server that is slow.
	slack = 1500 * time.Millisecond
	// lookLate is how late a renewal may be seen: rounds go on while a machine does not report, each with its time-outs.
	lookLate = 4 * time.Second
	// settled is for how long others renew before that one does not says anything: behind an outage of the API server
	// kubelets come back one after the other.
	settled = 5 * time.Second
)

// leases are those of kubelets, as seen since a machine fell silent.
type leases struct{ seen map[string]*seen }

// seen is a Lease, and when it was first and last seen to be renewed: never, as long as that is zero.
type seen struct {
	lease       *coordinationv1.Lease
	first, last time.Time
}

// look reads all of them, from the API server's memory.
func (l *leases) look(ctx context.Context, client kubernetes.Interface, now func() time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	ours := client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	list, err := ours.List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return fmt.Errorf("list Leases: %w", err)
	}
	was := l.seen
	l.seen = make(map[string]*seen, len(list.Items))
	for i := range list.Items {
		lease := &list.Items[i]
		s := was[lease.Name]
		switch {
		case s == nil:
			s = &seen{}
		case s.lease.ResourceVersion != lease.ResourceVersion:
			s.last = now()
			if s.first.IsZero() {
				s.first = s.last
			}
		}
		s.lease = lease
		l.seen[lease.Name] = s
	}
	return nil
}

// of is the Lease of a Node; nil: it has none.
func (l *leases) of(node string) *coordinationv1.Lease {
	if s := l.seen[node]; s != nil {
		return s.lease
	}
	return nil
}

// mostRenew reports whether a half of the kubelets on these Nodes, at least, renew theirs, and have for some seconds:
// where they do not, it is their way to the API server that is cut, or the API server that does not write.
func (l *leases) mostRenew(nodes map[string]bool, now time.Time) bool {
	have, renew := 0, 0
	for name := range nodes {
		s := l.seen[name]
		if s == nil {
			continue
		}
		have++
		if !s.first.IsZero() && now.Sub(s.first) >= settled && now.Sub(s.last) <= renewal(s.lease)+lookLate {
			renew++
		}
	}
	return have > 0 && 2*renew >= have
}

// renewal is the time in which a kubelet has renewed its Lease for certain.
func renewal(lease *coordinationv1.Lease) time.Duration {
	d := usualLease
	if s := lease.Spec.LeaseDurationSeconds; s != nil {
		d = time.Duration(*s) * time.Second
	}
	return min(max(d*26/100, shortest), longest) + slack
}
