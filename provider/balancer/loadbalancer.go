package balancer

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
	"k8s.io/cloud-provider/service/helpers"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/balancer/evaluation"
)

const (
	// patience of a call, in which passes go on. An address of level L2 is published in little more than a second.
	patience = 2 * time.Second
	// lookEvery is how often a call looks at what the passes have done.
	lookEvery = 5 * time.Millisecond
	// retryAfter is when upstream asks again about what is under way.
	retryAfter = time.Second
)

var _ cloudprovider.LoadBalancer = (*Balancer)(nil)

// GetLoadBalancerName is for messages.
func (b *Balancer) GetLoadBalancerName(_ context.Context, _ string, service *corev1.Service) string {
	return service.Namespace + "/" + service.Name
}

// GetLoadBalancer answers from claims, and not from the status, which may have been cleared. A Service with the
// finalizer has a load balancer until it was deleted: at level NodeIP nothing else would say so. What an IPAM may have for the Service
// counts, too: upstream removes the finalizer of a Service without a load balancer, and nothing would release the address.
func (b *Balancer) GetLoadBalancer(_ context.Context, _ string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	if w := b.caches.unknown(); w != nil {
		return nil, false, b.notYet(w)
	}
	problem, _ := b.leased(service)
	exists := b.claims(allocator.NameOf(service)) || problem != ""
	b.mu.Lock()
	defer b.mu.Unlock()
	status := service.Status.LoadBalancer.DeepCopy()
	if st := b.statuses[allocator.NameOf(service)]; st != nil && st.Service.UID == service.UID {
		status = st.After.Status.LoadBalancer.DeepCopy()
	}
	if known := b.cached(service); known != nil && !b.released[service.UID] {
		exists = exists || helpers.HasLBFinalizer(known) || helpers.HasLBFinalizer(service)
	}
	return status, exists, nil
}

// EnsureLoadBalancer returns what is published, or why nothing is. The passes publish by themselves: where an agent has not
// announced the address yet, an IPAM has not answered, or the Service is held until another object is written, upstream has nothing to do,
// and would leave a Warning for each attempt. It has one worker, so that no call waits for an IPAM or a write. Upstream writes addresses
// alone. Without our condition beside them, the policy about the Nodes' ports would let an edit pass: addresses are returned once the
// condition is seen.
func (b *Balancer) EnsureLoadBalancer(ctx context.Context, _ string, service *corev1.Service, _ []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	b.mu.Lock()
	delete(b.released, service.UID)
	b.mu.Unlock()
	b.changed()
	var st *evaluation.Status
	var published bool
	b.until(ctx, func() bool {
		known := b.cached(service)
		st = b.statusOf(service)
		published = st != nil && st.Complete && known != nil && allocator.Condition(known) != nil
		return published || st != nil && (st.Elsewhere || st.Held || st.Problem != nil)
	})
	switch {
	case st == nil:
		if w := b.caches.unknown(); w != nil {
			return nil, b.notYet(w)
		}
	case published:
		return st.After.Status.LoadBalancer.DeepCopy(), nil
	case st.Problem != nil && !st.Elsewhere && st.Problem.ID != finding.IPAMPending: // the IPAM is asked again by itself
		return nil, fmt.Errorf("%s: %w; %s", st.Problem.Reason, st.Problem, st.Problem.Do)
	}
	return nil, cloudprovider.ImplementedElsewhere
}

// cached is the Service as it was last seen; nil: it was not, or another one has its name.
func (b *Balancer) cached(service *corev1.Service) *corev1.Service {
	object, there, _ := b.caches.services.GetStore().GetByKey(allocator.NameOf(service).String())
	if known, is := object.(*corev1.Service); there && is && known.UID == service.UID {
		return known
	}
	return nil
}

// UpdateLoadBalancer has nothing to do: passes follow Nodes, and read Services where they are not stale. Upstream calls
// it for each Service whenever a Node comes or goes, and leaves an Event unless another program does the work.
func (b *Balancer) UpdateLoadBalancer(context.Context, string, *corev1.Service, []*corev1.Node) error {
	b.changed()
	return cloudprovider.ImplementedElsewhere
}

// EnsureLoadBalancerDeleted returns when nothing is claimed any more. The addresses are kept for a while, for a Service
// of the same name. What an IPAM has for the Service without a claim is released first: nothing would know of it afterwards.
func (b *Balancer) EnsureLoadBalancerDeleted(ctx context.Context, _ string, service *corev1.Service) error {
	if w := b.caches.unknown(); w != nil {
		return b.notYet(w)
	}
	b.mu.Lock()
	b.released[service.UID] = true
	b.mu.Unlock()
	b.hurry()
	problem := "its addresses are still claimed"
	b.until(ctx, func() bool {
		if b.claims(allocator.NameOf(service)) {
			return false
		}
		var failed bool
		problem, failed = b.leased(service)
		return problem == "" || failed
	})
	if problem != "" {
		return api.NewRetryError(problem, retryAfter)
	}
	return nil
}

// notYet is for callers that come before the caches are complete.
func (b *Balancer) notYet(w *watched) error {
	return api.NewRetryError("look at load balancers: "+w.name+" are not known yet", retryAfter)
}

// until polls until done, or until that takes too long.
func (b *Balancer) until(ctx context.Context, done func() bool) {
	for deadline := time.Now().Add(patience); !done() && time.Now().Before(deadline) && ctx.Err() == nil; {
		time.Sleep(lookEvery)
	}
}

// statusOf returns nil as long as no pass has seen the Service as it is asked about, or newer.
func (b *Balancer) statusOf(service *corev1.Service) *evaluation.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	st := b.statuses[allocator.NameOf(service)]
	if st == nil || st.Service.UID != service.UID {
		return nil
	}
	order, err := resourceversion.CompareResourceVersion(st.Service.ResourceVersion, service.ResourceVersion)
	if err == nil && order < 0 {
		return nil
	}
	return st
}

// claims reports whether the Service has any that is not released. It is asked every few milliseconds, for each Service that is deleted.
func (b *Balancer) claims(name types.NamespacedName) bool {
	keys, err := b.caches.claims.GetIndexer().IndexKeys(byService, name.String())
	return err != nil || len(keys) > 0 // without the index nothing is known to be released
}

// leased says where an IPAM may have an address for a Service that no claim has, empty: nowhere; and whether a call has failed.
func (b *Balancer) leased(service *corev1.Service) (problem string, failed bool) {
	known := b.cached(service)
	if known == nil {
		return "", false
	}
	keys := allocator.AskedOf(known)
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(keys) == 0 || b.cleared[service.UID] {
		return "", false
	}
	key := keys[0]
	leases := b.ipam.Leases()
	if i := slices.IndexFunc(keys, func(k allocator.LeaseKey) bool { return leases[k].Problem != "" }); i >= 0 {
		key = keys[i]
	}
	if problem := leases[key].Problem; problem != "" {
		return fmt.Sprintf("release its address: the IPAM of AddressPool/%s %s", key.Pool, problem), leases[key].Releasing
	}
	return fmt.Sprintf("release its address: the IPAM of AddressPool/%s has not answered yet", key.Pool), false
}
