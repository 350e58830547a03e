// Package agentleases watches the NodeAgentLeases of node agents, and tells agents that it does.
//
// Start at [New]. Agents renew their NodeAgentLease instead of their NodeAgent as long as Lease kube-system/ccmadm-node-agent-reader is
// renewed: a cloud-controller-manager of an earlier release knows NodeAgents only, and would take agents for dead.
//
// Reads: NodeAgentLeases. Writes: that Lease, in the leader alone.
// Running it twice: two leaders renew the Lease for a moment, and each of them watches.
// It will not: renew the Lease while it cannot list or watch NodeAgentLeases, such as with the permissions of an earlier release. Agents
// return to NodeAgents then, before a minute has passed for which they count as live.
package agentleases

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/objects"
)

const (
	// renewEvery is the time between two renewals of the reader's Lease.
	renewEvery = 5 * time.Second
	// lasts is how long an agent relies on a renewal. Another leader takes over within 20 s; and an agent whose last report is 20 s
	// old returns to reports before a manager that reads nothing else takes it for dead, after [objects.LiveTime].
	lasts = 30 * time.Second
	// renewTimeout is for API servers that swallow packets.
	renewTimeout = 10 * time.Second
)

// Reader is a cloud-controller-manager that watches NodeAgentLeases.
type Reader struct {
	// Informer has the NodeAgentLeases. It waits until their definition is installed.
	Informer cache.SharedIndexInformer

	client kubernetes.Interface
	holder string
	reads  *atomic.Bool          // the last list or watch has succeeded
	last   *coordinationv1.Lease // as the API server returned it
}

// New makes a Reader; holder is who it is, for people who read the Lease. It sends no request.
func New(client kubernetes.Interface, ours *objects.Client, holder string) (*Reader, error) {
	r := &Reader{client: client, holder: holder, reads: &atomic.Bool{}}
	r.Informer = objects.Informer(noted{ours.NodeAgentLeases, r.reads}, &v1alpha1.NodeAgentLease{})
	var told atomic.Bool
	err := r.Informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, reflector *cache.Reflector, err error) {
		if !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			cache.DefaultWatchErrorHandler(ctx, reflector, err)
		} else if !told.Swap(true) {
			klog.InfoS("NodeAgentLeases cannot be watched: node agents renew their NodeAgents instead", "cause", err.Error())
		}
	})
	if err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	return r, nil
}

// Leases returns those that there are.
func (r *Reader) Leases() []*v1alpha1.NodeAgentLease {
	return objects.List[*v1alpha1.NodeAgentLease](r.Informer.GetStore())
}

// Run watches, and tells agents, until ctx is done.
func (r *Reader) Run(ctx context.Context) {
	go r.Informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), r.Informer.HasSynced) {
		return
	}
	for {
		if r.reads.Load() {
			if err := r.renew(ctx); err != nil && ctx.Err() == nil {
				klog.ErrorS(err, "Failed to tell node agents that their leases are watched; retrying", "retry", renewEvery)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(renewEvery):
		}
	}
}

// renew renews the Lease, and makes it where there is none.
func (r *Reader) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	leases := r.client.CoordinationV1().Leases(v1alpha1.Namespace)
	spec := coordinationv1.LeaseSpec{
		HolderIdentity: new(r.holder), LeaseDurationSeconds: new(int32(lasts.Seconds())), RenewTime: new(metav1.NowMicro()),
	}
	var err error
	if r.last == nil {
		r.last, err = leases.Get(ctx, v1alpha1.AgentReaderLease, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			r.last, err = leases.Create(ctx, &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{
					Name: v1alpha1.AgentReaderLease, Labels: map[string]string{v1alpha1.ManagedByLabel: v1alpha1.FieldManager},
				},
				Spec: spec,
			}, metav1.CreateOptions{})
			return r.kept(err)
		}
		if err != nil {
			return r.kept(err)
		}
	}
	next := r.last.DeepCopy()
	next.Spec = spec
	r.last, err = leases.Update(ctx, next, metav1.UpdateOptions{})
	return r.kept(err)
}

// kept forgets what the API server had where it may have something else now.
func (r *Reader) kept(err error) error {
	if err == nil {
		return nil
	}
	r.last = nil
	return fmt.Errorf("renew Lease/%s/%s: %w", v1alpha1.Namespace, v1alpha1.AgentReaderLease, err)
}

// noted notes whether requests succeed.
type noted struct {
	*objects.NodeAgentLeases
	reads *atomic.Bool
}

// List lists the leases.
func (n noted) List(ctx context.Context, options metav1.ListOptions) (*v1alpha1.NodeAgentLeaseList, error) {
	list, err := n.NodeAgentLeases.List(ctx, options)
	n.reads.Store(err == nil)
	return list, err
}

// Watch follows them.
func (n noted) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	w, err := n.NodeAgentLeases.Watch(ctx, options)
	n.reads.Store(err == nil)
	return w, err
}
