package agent

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/objects"
)

const (
	// longestTrust is how long an agent relies on a renewal of the reader's Lease, whatever that says: its last report may be
	// renewPeriod old, the next one takes time, and a manager that reads nothing else takes the agent for dead after
	// [objects.LiveTime].
	longestTrust = objects.LiveTime - renewPeriod - reportTimeout
	// trustSpread is by how much agents' trust differs, so that not all of them report at the same moment where a manager stops. The
	// shortest outlasts a change of leaders.
	trustSpread = 6 * time.Second
)

// lease is the NodeAgentLease of its own Node, which is written without a change, too. Nothing of it is watched.
type lease struct {
	*ownObject[*v1alpha1.NodeAgentLease]
}

func newLease(client *objects.Client, node string, nodes cache.SharedIndexInformer) (*lease, error) {
	own, err := newOwnObject[*v1alpha1.NodeAgentLease, *v1alpha1.NodeAgentLeaseList](node, nodes, &v1alpha1.NodeAgentLease{},
		client.NodeAgentLeases)
	if err != nil {
		return nil, err
	}
	own.same = func(_, _ *v1alpha1.NodeAgentLease) bool { return false }
	return &lease{own}, nil
}

// renew writes that the agent is alive, and makes the object where there is none.
func (l *lease) renew(ctx context.Context) error {
	return l.write(ctx, &v1alpha1.NodeAgentLease{RenewTime: metav1.NowMicro()})
}

// reader tells whether a cloud-controller-manager watches NodeAgentLeases and NodeAnnouncements: one that does renews a Lease of its own.
type reader struct {
	informer cache.SharedIndexInformer
	spread   time.Duration    // of this agent, up to trustSpread
	renewed  metav1.MicroTime // as it was seen last
	changed  time.Time        // when it became that
	until    atomic.Int64     // when that was too long ago, by this machine's clock, in nanoseconds
	began    atomic.Int64     // when the renewals began that have followed each other since
	// begins is called then, unless it is nil.
	begins func()
}

// newReader makes it. Its informer waits to be run.
func newReader(client kubernetes.Interface) (*reader, error) {
	r := &reader{spread: rand.N(trustSpread)}
	one := informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, v1alpha1.AgentReaderLease).String()
	})
	r.informer = informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(v1alpha1.Namespace), one).
		Coordination().V1().Leases().Informer()
	var told atomic.Bool
	err := r.informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, reflector *cache.Reflector, err error) {
		if !apierrors.IsForbidden(err) {
			cache.DefaultWatchErrorHandler(ctx, reflector, err)
		} else if !told.Swap(true) { // permissions of an earlier release
			klog.ErrorS(err, "Failed to watch a Lease; the NodeAgent is renewed instead", "lease", v1alpha1.AgentReaderLease)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	_, err = r.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { r.see(time.Now(), object) },
		UpdateFunc: func(_, object any) { r.see(time.Now(), object) },
		DeleteFunc: func(any) { r.until.Store(0) },
	})
	if err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	return r, nil
}

// see takes in the Lease. One renewal proves nothing: that may be long ago, and was only heard of now. Two that follow each other do.
func (r *reader) see(now time.Time, object any) {
	l, is := object.(*coordinationv1.Lease)
	if !is || l.Spec.RenewTime == nil || l.Spec.RenewTime.Equal(&r.renewed) {
		return
	}
	follows := now.Sub(r.changed) < longestTrust
	r.renewed, r.changed = *l.Spec.RenewTime, now
	if follows {
		r.trust(now, time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, 0))*time.Second)
	}
}

// trust relies on a renewal for as long as the Lease says, within limits.
func (r *reader) trust(now time.Time, lasts time.Duration) {
	begins := r.trusted(now) <= 0
	if begins {
		r.began.Store(now.UnixNano())
	}
	r.until.Store(now.Add(min(lasts, longestTrust) - r.spread).UnixNano())
	if begins && r.begins != nil {
		r.begins()
	}
}

// period tells apart the times in which managers watch; 0: none does now.
func (r *reader) period(now time.Time) int64 {
	if r.trusted(now) <= 0 {
		return 0
	}
	return r.began.Load()
}

// trusted is for how long it can be relied on from now on that a manager watches NodeAgentLeases; 0 or less: none does.
func (r *reader) trusted(now time.Time) time.Duration {
	if r == nil {
		return 0
	}
	left := time.Unix(0, r.until.Load()).Sub(now)
	if left > longestTrust { // the clock was set back
		return 0
	}
	return left
}
