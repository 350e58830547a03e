package nodes

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

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

// held tells whether there is a leader. Before the first renewal was seen, it goes by the holder's clock.
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

func (l *leadership) holder() string { return Holder(l.lease) }

func (l *leadership) duration() time.Duration { return duration(l.lease) }

// Holder is the identity that holds a Lease; empty where none does.
func Holder(l *coordinationv1.Lease) string {
	if l == nil {
		return ""
	}
	return ptr.Deref(l.Spec.HolderIdentity, "")
}

// HolderHost is the holder's hostname: identities are HOSTNAME_UUID.
func HolderHost(l *coordinationv1.Lease) string {
	host, _, _ := strings.Cut(Holder(l), "_")
	return host
}

// Holds tells whether a pod holds the Lease. Its hostname is its own name, or that of its machine.
func Holds(l *coordinationv1.Lease, p *corev1.Pod) bool {
	host := HolderHost(l)
	return host != "" && (p.Name == host || p.Spec.NodeName == host || p.Spec.Hostname == host)
}

// Renewed tells whether a Lease has not run out, by the clock of its holder.
func Renewed(l *coordinationv1.Lease, now time.Time) bool {
	return l != nil && !renewTime(l).IsZero() && now.Sub(renewTime(l)) < duration(l)
}

func duration(l *coordinationv1.Lease) time.Duration {
	if l == nil {
		return 0
	}
	return time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, 0)) * time.Second
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
		return lease + " cannot be read: " + l.err.Error()
	case l.holder() == "" || renewTime(l.lease).IsZero():
		return lease + " has no holder"
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

// get reads the Lease.
func (l *leadership) get(ctx context.Context, c kubernetes.Interface) (*coordinationv1.Lease, error) {
	lease, err := c.CoordinationV1().Leases(l.namespace).Get(ctx, l.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", l.object(), err)
	}
	return lease, nil
}

// awaitRenewal looks at a Lease that clocks make doubtful, for long enough to see a renewal.
func (l *leadership) awaitRenewal(ctx context.Context, c kubernetes.Interface) {
	if l.err != nil || l.holder() == "" || renewTime(l.lease).IsZero() {
		return
	}
	if age := l.age(time.Now()); age < l.duration() && age > -clockSlack {
		return
	}
	deadline := time.Now().Add(min(max(l.duration()/5, minRenewal), maxRenewal))
	for l.renewed.IsZero() && time.Now().Before(deadline) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(minRenewal / 5):
		}
		if lease, err := l.get(ctx, c); err == nil {
			l.see(lease, time.Now())
		}
	}
	if l.renewed.IsZero() && l.age(time.Now()) < l.duration() { // a clock that is behind, and no renewal
		l.renewed = deadline.Add(-l.duration())
	}
}
