package agent

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce/bgp"
	"github.com/ccmadm/ccmadm/provider/controlplane"
)

// filters say whether a view may be another one after an event; before is nil where an object is new. Of informers that
// have none, everything matters.
func (c *caches) filters() map[cache.SharedIndexInformer]func(before, after any) bool {
	return map[cache.SharedIndexInformer]func(before, after any) bool{
		c.nodes: nodeMatters, c.agents: agentMatters, c.services: serviceMatters, c.slices: c.sliceMatters,
		c.pools: specMatters, c.peers: specMatters,
	}
}

// nodeMatters is false for what kubelets say to show that they live.
func nodeMatters(before, after any) bool {
	a, known := before.(*corev1.Node)
	b, is := after.(*corev1.Node)
	return !known || !is || a.UID != b.UID || (a.DeletionTimestamp == nil) != (b.DeletionTimestamp == nil) ||
		!maps.Equal(a.Labels, b.Labels) || a.Spec.ProviderID != b.Spec.ProviderID || !slices.Equal(a.Spec.PodCIDRs, b.Spec.PodCIDRs) ||
		!equality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints) || !slices.Equal(a.Status.Addresses, b.Status.Addresses) ||
		!slices.EqualFunc(a.Status.Conditions, b.Status.Conditions, func(x, y corev1.NodeCondition) bool {
			x.LastHeartbeatTime = y.LastHeartbeatTime
			return equality.Semantic.DeepEqual(x, y)
		})
}

// agentMatters is about what others do with a report: who may take an address, and who has a router. A session with a
// router that rejects it goes from Idle to Active and back for ever.
func agentMatters(before, after any) bool {
	a, known := before.(*v1alpha1.NodeAgent)
	b, is := after.(*v1alpha1.NodeAgent)
	return !known || !is || a.UID != b.UID || a.Status.Draining != b.Status.Draining ||
		a.Status.Egress != b.Status.Egress || a.Silent() != b.Silent() ||
		!equality.Semantic.DeepEqual(a.Status.Interfaces, b.Status.Interfaces) ||
		!slices.Equal(a.Status.KernelAnswers, b.Status.KernelAnswers) ||
		bgp.Speaks(a) != bgp.Speaks(b)
}

// specMatters is false for a status, which the manager writes for people. One of the same name has another UID.
func specMatters(before, after any) bool {
	a, known := before.(metav1.Object)
	b, is := after.(metav1.Object)
	return !known || !is || a.GetUID() != b.GetUID() || a.GetGeneration() != b.GetGeneration()
}

// serviceMatters is about those whose endpoints do: of all others the claims say everything. What is left out of the cache, such as
// annotations, makes no other view.
func serviceMatters(before, after any) bool {
	a, known := before.(*corev1.Service)
	b, is := after.(*corev1.Service)
	return (endpointsMatter(before) || endpointsMatter(after)) &&
		(!known || !is || a.UID != b.UID || v1alpha1.WantsEgress(a.Labels) != v1alpha1.WantsEgress(b.Labels) || !equality.Semantic.DeepEqual(a.Spec, b.Spec))
}

// endpointsMatter is true for Services with externalTrafficPolicy Local, and for those whose pods' packets leave with their address.
func endpointsMatter(object any) bool {
	s, is := object.(*corev1.Service)
	return is && (s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal || v1alpha1.WantsEgress(s.Labels))
}

// sliceMatters is about the same Services. One that is not known yet comes with an event of its own. A tenant may write a slice as often
// as it likes.
func (c *caches) sliceMatters(before, after any) bool {
	a, known := before.(*discoveryv1.EndpointSlice)
	b, is := after.(*discoveryv1.EndpointSlice)
	if !known || !is {
		return !is || c.counts(b)
	}
	same := maps.Equal(a.Labels, b.Labels) && equality.Semantic.DeepEqual(a.Endpoints, b.Endpoints)
	return !same && (c.counts(a) || c.counts(b))
}

// counts reports whether a view has something of the slice.
func (c *caches) counts(slice *discoveryv1.EndpointSlice) bool {
	if controlplane.IsServers(slice) {
		return true // no Service may have an address of theirs
	}
	name := slice.Namespace + "/" + slice.Labels[discoveryv1.LabelServiceName]
	service, there, err := c.services.GetStore().GetByKey(name)
	return err != nil || there && endpointsMatter(service)
}
