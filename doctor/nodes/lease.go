package nodes

import (
	"cmp"
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// leadership is what is known of the leader's Lease. As in leader election itself, a renewal that was seen counts from
// when it was seen: the clocks of two machines need not agree.
type leadership struct {
	// name is what the Lease is called, or would be, and namespace where. Empty: v1alpha1.Namespace.
	namespace, name string
	// lease is nil where there is none, and where err says that it could not be looked at.
	lease *coordinationv1.Lease
	err   error
	// renewed is when a renewal was last seen, by this machine's clock. Zero: none was seen yet.
	renewed time.Time
	// unelected says that no pod of the manager asks for the Lease (--leader-elect=false); alone is the one that leads
	// without, for it is ready.
	unelected bool
	alone     string
}

// object is the Lease's name in a finding.
func (l *leadership) object() string {
	return "Lease/" + cmp.Or(l.namespace, v1alpha1.Namespace) + "/" + l.name
}

// see takes what the Lease looks like now.
func (l *leadership) see(lease *coordinationv1.Lease, now time.Time) {
	if l.lease != nil && lease != nil && !renewTime(lease).Equal(renewTime(l.lease)) {
		l.renewed = now
	}
	l.lease = lease
}

// held tells whether somebody leads. Before the first renewal was seen, it believes the holder's clock.
func (l *leadership) held(now time.Time) bool {
	if l.alone != "" {
		return true
	}
	if l.holder() == "" || renewTime(l.lease).IsZero() {
		return false
	}
	return l.age(now) < l.duration()
}

// age is for how long the Lease has not been renewed.
func (l *leadership) age(now time.Time) time.Duration {
	if !l.renewed.IsZero() {
		return now.Sub(l.renewed)
	}
	return now.Sub(renewTime(l.lease))
}

// who names the leader.
func (l *leadership) who() string {
	if l.alone != "" {
		return "pod " + l.alone + ", with --leader-elect=false"
	}
	return l.holder()
}

func (l *leadership) holder() string {
	if l.lease == nil || l.lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.lease.Spec.HolderIdentity
}

func (l *leadership) duration() time.Duration {
	if l.lease == nil || l.lease.Spec.LeaseDurationSeconds == nil {
		return 0
	}
	return time.Duration(*l.lease.Spec.LeaseDurationSeconds) * time.Second
}

func renewTime(l *coordinationv1.Lease) time.Time {
	if l.Spec.RenewTime == nil {
		return time.Time{}
	}
	return l.Spec.RenewTime.Time
}

// leaderless says in which way there is no leader.
func (l *leadership) leaderless(now time.Time) string {
	lease := l.object()
	switch {
	case l.unelected:
		return "is not ready; it asks for no Lease (--leader-elect=false)"
	case l.err != nil:
		return lease + " cannot be looked at: " + l.err.Error()
	case l.holder() == "" || renewTime(l.lease).IsZero():
		return "nobody holds " + lease
	}
	return fmt.Sprintf("%s, holder of %s, has not renewed it for %s", l.holder(), lease, l.age(now).Round(time.Second))
}

// Holders renew every two seconds unless they are told otherwise.
const (
	minRenewal = 2500 * time.Millisecond
	maxRenewal = 5 * time.Second
	// clockSlack is by how much a clock may be behind before it is doubted.
	clockSlack = 2 * time.Second
)

// getLeadership looks at the Lease, and where clocks make it doubtful, for long enough to see a renewal.
func getLeadership(ctx context.Context, c kubernetes.Interface, namespace, name string) leadership {
	l := leadership{namespace: namespace, name: name}
	get := func() (*coordinationv1.Lease, error) {
		lease, err := c.CoordinationV1().Leases(namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("get %s: %w", l.object(), err)
		}
		return lease, nil
	}
	if l.lease, l.err = get(); l.err != nil || l.holder() == "" || renewTime(l.lease).IsZero() {
		return l
	}
	if age := l.age(time.Now()); age < l.duration() && age > -clockSlack {
		return l
	}
	deadline := time.Now().Add(min(max(l.duration()/5, minRenewal), maxRenewal))
	for l.renewed.IsZero() && time.Now().Before(deadline) {
		select {
		case <-ctx.Done():
			return l
		case <-time.After(minRenewal / 5):
		}
		if lease, err := get(); err == nil {
			l.see(lease, time.Now())
		}
	}
	if l.renewed.IsZero() && l.age(time.Now()) < l.duration() { // a clock that is behind, and nobody renews it
		l.renewed = deadline.Add(-l.duration())
	}
	return l
}
