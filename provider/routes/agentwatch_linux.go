package routes

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// watch follows the kernel until ctx is done.
func (a *Agent) watch(ctx context.Context, changed func()) {
	concerns := func(r route) bool {
		wanted := a.wanted.Load()
		return r.ours() || wanted != nil && (*wanted)[r.Destination]
	}
	for ctx.Err() == nil {
		err := a.Kernel.watch(ctx, concerns, changed)
		if ctx.Err() != nil {
			return
		}
		klog.ErrorS(err, "Lost events of the kernel; watching again")
		select {
		case <-ctx.Done():
		case <-time.After(minPause):
		}
	}
}

// relevantChanges leaves out the heartbeats of kubelets.
func relevantChanges(changed func()) cache.ResourceEventHandler {
	same := func(a, b *corev1.Node) bool {
		return slices.Equal(a.Spec.PodCIDRs, b.Spec.PodCIDRs) && slices.Equal(a.Status.Addresses, b.Status.Addresses) &&
			describeCondition(a) == describeCondition(b)
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { changed() },
		DeleteFunc: func(any) { changed() },
		UpdateFunc: func(before, after any) {
			old, isNode := before.(*corev1.Node)
			now, isNodeToo := after.(*corev1.Node)
			if !isNode || !isNodeToo || !same(old, now) {
				changed()
			}
		},
	}
}
