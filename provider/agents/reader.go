// Package agents watches what node agents write for the cloud-controller-manager alone, and tells them that it does.
//
// Start at [New]. Agents renew their NodeAgentLease instead of their NodeAgent, and have what they announce in NodeAnnouncements, as long
// as Lease kube-system/ccmadm-node-agent-reader is renewed: a cloud-controller-manager of an earlier release knows NodeAgents only, and
// would take agents for dead.
//
// Reads: NodeAgentLeases, NodeAnnouncements. Writes: that Lease, in the leader alone.
// Running it twice: two leaders renew the Lease for a moment, and each of them watches.
// It will not: renew the Lease while it cannot list or watch both, such as with the permissions of an earlier release. Agents
// return to NodeAgents then, before a minute has passed for which they count as live.
package agents

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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

// Reader is a cloud-controller-manager that watches NodeAgentLeases and NodeAnnouncements.
type Reader struct {
	leases, announcements *followed

	client kubernetes.Interface
	holder string
	last   *coordinationv1.Lease // as the API server returned it
	begun  atomic.Int64          // when Run was called, in nanoseconds
}

// New makes a Reader; holder is who it is, for people who read the Lease. It sends no request.
func New(client kubernetes.Interface, ours *objects.Client, holder string) (*Reader, error) {
	leases, err := follow("NodeAgentLeases", ours.NodeAgentLeases, &v1alpha1.NodeAgentLease{})
	if err != nil {
		return nil, err
	}
	announcements, err := follow("NodeAnnouncements", ours.NodeAnnouncements, &v1alpha1.NodeAnnouncements{})
	if err != nil {
		return nil, err
	}
	return &Reader{client: client, holder: holder, leases: leases, announcements: announcements}, nil
}

// OnLeases has a handler told of NodeAgentLeases.
func (r *Reader) OnLeases(handler cache.ResourceEventHandler) error {
	_, err := r.leases.AddEventHandler(handler)
	return err
}

// OnAnnouncements calls changed when what a NodeAnnouncements says has. One that is written again without a change is no news.
func (r *Reader) OnAnnouncements(changed func()) error {
	_, err := r.announcements.AddEventHandler(onAnnouncements(changed))
	return err
}

func onAnnouncements(changed func()) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed() }, DeleteFunc: func(any) { changed() },
		UpdateFunc: func(before, after any) {
			if !alike(before, after) {
				changed()
			}
		},
	}
}

// alike compares what [Reader.Whole] has of two.
func alike(before, after any) bool {
	a, known := before.(*v1alpha1.NodeAnnouncements)
	b, is := after.(*v1alpha1.NodeAnnouncements)
	return known && is && a.Announced == b.Announced && slices.Equal(a.Announcements, b.Announcements) && slices.Equal(a.Sessions, b.Sessions)
}

// Known reports whether all is there that can be had. What cannot be listed for a minute is not waited for: agents have everything in their
// NodeAgents by then.
func (r *Reader) Known() bool {
	return r == nil || r.leases.known() && r.announcements.known() ||
		r.begun.Load() != 0 && time.Since(time.Unix(0, r.begun.Load())) > objects.LiveTime
}

// Leases returns those that there are.
func (r *Reader) Leases() []*v1alpha1.NodeAgentLease {
	if r == nil {
		return nil
	}
	return objects.List[*v1alpha1.NodeAgentLease](r.leases.GetStore())
}

// Whole returns the reports with the announcements that are apart. They are copies where they differ.
func (r *Reader) Whole(reports []*v1alpha1.NodeAgent) []*v1alpha1.NodeAgent {
	if r == nil {
		return reports
	}
	whole := make([]*v1alpha1.NodeAgent, 0, len(reports))
	for _, report := range reports {
		if object, there, _ := r.announcements.GetStore().GetByKey(report.Name); there && report.Status.AnnouncementsApart {
			report = report.With(object.(*v1alpha1.NodeAnnouncements))
		}
		whole = append(whole, report)
	}
	return whole
}

// Run watches, and tells agents, until ctx is done.
func (r *Reader) Run(ctx context.Context) {
	r.begun.Store(time.Now().UnixNano())
	go r.leases.RunWithContext(ctx)
	go r.announcements.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), r.leases.HasSynced, r.announcements.HasSynced) {
		return
	}
	for {
		if r.leases.reads.Load() && r.announcements.reads.Load() {
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

// followed is an informer, and whether the API server answers it.
type followed struct {
	cache.SharedIndexInformer
	// reads: the last list or watch has succeeded. denied: one was forbidden, or the API server does not know the resource.
	reads, denied atomic.Bool
}

func follow[L runtime.Object](what string, client objects.Lister[L], example runtime.Object) (*followed, error) {
	f := &followed{}
	f.SharedIndexInformer = objects.Informer(noted[L]{client, &f.reads}, example)
	err := f.SetWatchErrorHandlerWithContext(func(ctx context.Context, reflector *cache.Reflector, err error) {
		if !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			cache.DefaultWatchErrorHandler(ctx, reflector, err)
		} else if !f.denied.Swap(true) {
			klog.InfoS("A resource cannot be watched: node agents write all into their NodeAgents instead", "resource", what, "cause", err.Error())
		}
	})
	if err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	return f, nil
}

func (f *followed) known() bool { return f.HasSynced() || f.denied.Load() }

// noted notes whether requests succeed.
type noted[L runtime.Object] struct {
	objects.Lister[L]
	reads *atomic.Bool
}

// List lists the objects.
func (n noted[L]) List(ctx context.Context, options metav1.ListOptions) (L, error) {
	list, err := n.Lister.List(ctx, options)
	n.reads.Store(err == nil)
	return list, err
}

// Watch follows them.
func (n noted[L]) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	w, err := n.Lister.Watch(ctx, options)
	n.reads.Store(err == nil)
	return w, err
}
