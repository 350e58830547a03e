package balancer

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/balancer/evaluation"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// watched is an informer, and how far it has come.
type watched struct {
	cache.SharedIndexInformer
	name       string
	registered cache.ResourceEventHandlerRegistration
	// absent: the API server does not know the resource. That is an answer: there are no such objects.
	absent atomic.Bool
	// forbidden: the manager's permissions are of a release that did not read it.
	forbidden atomic.Bool
	seen      atomic.Pointer[string] // the newest resourceVersion that is in the store
}

// caches are the informers of what is read.
type caches struct {
	nodes, services                                         *watched // of the controller manager, which runs them
	slices, claims, cidrs, namespaces, pools, peers, agents *watched
	proxy                                                   *watched
	bound                                                   atomic.Bool // kube-proxy was seen in a mode that binds
}

// newCaches makes informers, and runs none.
func newCaches(s Settings) *caches {
	factory := informers.NewSharedInformerFactory(s.Client, 0)
	return &caches{
		nodes:      &watched{SharedIndexInformer: s.Nodes, name: "Nodes"},
		services:   &watched{SharedIndexInformer: s.Services, name: "Services"},
		slices:     &watched{SharedIndexInformer: factory.Discovery().V1().EndpointSlices().Informer(), name: "EndpointSlices"},
		claims:     &watched{SharedIndexInformer: claimInformer(s.Client), name: "IPAddresses"},
		cidrs:      &watched{SharedIndexInformer: factory.Networking().V1().ServiceCIDRs().Informer(), name: "ServiceCIDRs"},
		namespaces: &watched{SharedIndexInformer: factory.Core().V1().Namespaces().Informer(), name: "Namespaces"},
		pools:      &watched{SharedIndexInformer: objects.Informer(s.Objects.AddressPools, &v1alpha1.AddressPool{}), name: "AddressPools"},
		peers:      &watched{SharedIndexInformer: objects.Informer(s.Objects.BGPPeers, &v1alpha1.BGPPeer{}), name: "BGPPeers"},
		agents:     &watched{SharedIndexInformer: objects.Informer(s.Objects.NodeAgents, &v1alpha1.NodeAgent{}), name: "NodeAgents"},
		proxy:      &watched{SharedIndexInformer: proxyInformer(s.Client), name: "kube-proxy's configuration"},
	}
}

// ourClaims selects them among all IPAddresses.
const ourClaims = networkingv1.LabelManagedBy + "=" + v1alpha1.ClaimManager

func claimInformer(client kubernetes.Interface) cache.SharedIndexInformer {
	ours := informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = ourClaims })
	return informers.NewSharedInformerFactoryWithOptions(client, 0, ours).Networking().V1().IPAddresses().Informer()
}

// byService is the index of claims that are not released, by the Services that have them.
const byService = "service"

func servicesOf(object any) ([]string, error) {
	c, ok := allocator.ParseClaim(object.(*networkingv1.IPAddress))
	if !ok || !c.Live() {
		return nil, nil
	}
	var names []string
	for _, owner := range c.Owners {
		names = append(names, owner.String())
	}
	return names, nil
}

func (c *caches) own() []*watched {
	return []*watched{c.slices, c.claims, c.cidrs, c.namespaces, c.pools, c.peers, c.agents, c.proxy}
}

// follow calls changed when something has that matters, hurry when a Service comes, and reported when an agent says something else.
func (c *caches) follow(changed, hurry, reported func()) error {
	if err := c.claims.AddIndexers(cache.Indexers{byService: servicesOf}); err != nil {
		return err
	}
	matters := map[*watched]func(before, after any) bool{
		c.nodes: nodeMatters, c.services: serviceMatters, c.slices: c.sliceMatters, c.agents: agentMatters,
	}
	for _, w := range append(c.own(), c.nodes, c.services) {
		added, updated := changed, changed
		switch w {
		case c.services:
			added = hurry
		case c.agents:
			added, updated = reported, reported
		}
		if err := w.follow(matters[w], added, updated); err != nil {
			return err
		}
	}
	for _, w := range c.own() {
		err := w.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
			if apierrors.IsForbidden(err) {
				w.forbidden.Store(true)
			}
			if !apierrors.IsNotFound(err) {
				cache.DefaultWatchErrorHandler(ctx, r, err)
			} else if !w.absent.Swap(true) {
				klog.InfoS("A resource is not served by the API server yet", "type", r.TypeDescription())
			}
			changed()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *watched) follow(matters func(before, after any) bool, added, changed func()) error {
	note := func(before, after any, changed func()) {
		w.note(after)
		if matters == nil || matters(before, after) {
			changed()
		}
	}
	var err error
	w.registered, err = w.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { note(object, object, added) },
		UpdateFunc: func(before, after any) { note(before, after, changed) },
		DeleteFunc: func(object any) {
			if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			note(object, object, changed)
		},
	})
	return err
}

// note remembers how far the store has come.
func (w *watched) note(object any) {
	if m, ok := object.(metav1.Object); ok && !w.has(m.GetResourceVersion()) {
		w.seen.Store(new(m.GetResourceVersion()))
	}
}

// has reports whether the store is as new as that.
func (w *watched) has(version string) bool {
	seen := w.seen.Load()
	if seen == nil {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(*seen, version)
	return err == nil && order >= 0
}

// known reports whether the store has all there was, at some time.
func (w *watched) known() bool { return w.registered.HasSynced() || w.absent.Load() }

// unknown names what cannot be looked at yet; nil: everything is there that can be had.
func (c *caches) unknown() *watched {
	for _, w := range append(c.own(), c.nodes, c.services) {
		if !w.known() && (w != c.proxy || !w.forbidden.Load()) {
			return w
		}
	}
	return nil
}

func nodeMatters(before, after any) bool {
	a, b := before.(*corev1.Node), after.(*corev1.Node)
	excluded := func(n *corev1.Node) bool { return metav1.HasLabel(n.ObjectMeta, v1alpha1.ExcludeLabel) }
	return a == b || evaluation.Carries(a) != evaluation.Carries(b) || evaluation.Leaves(a) != evaluation.Leaves(b) || excluded(a) != excluded(b) ||
		!equality.Semantic.DeepEqual(a.Status.Addresses, b.Status.Addresses) ||
		!equality.Semantic.DeepEqual(a.Spec.PodCIDRs, b.Spec.PodCIDRs)
}

func serviceMatters(before, after any) bool {
	balanced := func(object any) bool {
		s := object.(*corev1.Service)
		return s.Spec.Type == corev1.ServiceTypeLoadBalancer || allocator.Condition(s) != nil || len(s.Status.LoadBalancer.Ingress) > 0
	}
	return balanced(before) || balanced(after)
}

// sliceMatters is about Services with externalTrafficPolicy Local only, and on which Nodes they have endpoints: tenants write
// EndpointSlices.
func (c *caches) sliceMatters(before, after any) bool {
	a, b := before.(*discoveryv1.EndpointSlice), after.(*discoveryv1.EndpointSlice)
	of := discoveryv1.LabelServiceName
	if a != b && a.Labels[of] == b.Labels[of] && maps.Equal(evaluation.EndpointNodes(a), evaluation.EndpointNodes(b)) {
		return false
	}
	return c.isLocal(a) || c.isLocal(b)
}

// isLocal reports whether the slice is of a Service that we serve, with externalTrafficPolicy Local.
func (c *caches) isLocal(slice *discoveryv1.EndpointSlice) bool {
	object, there, _ := c.services.GetStore().GetByKey(slice.Namespace + "/" + slice.Labels[discoveryv1.LabelServiceName])
	if !there {
		return false
	}
	service := object.(*corev1.Service)
	return allocator.Served(service) && service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// agentMatters is false for a report that only says that the agent lives.
func agentMatters(before, after any) bool {
	a, b := before.(*v1alpha1.NodeAgent), after.(*v1alpha1.NodeAgent)
	return a == b || a.Status.AnnouncementsApart != b.Status.AnnouncementsApart ||
		!equality.Semantic.DeepEqual(a.Status.Announcements, b.Status.Announcements) ||
		!equality.Semantic.DeepEqual(a.Status.Conflicts, b.Status.Conflicts) ||
		!equality.Semantic.DeepEqual(a.Status.Sessions, b.Status.Sessions) ||
		!equality.Semantic.DeepEqual(a.Status.Listening, b.Status.Listening) ||
		!equality.Semantic.DeepEqual(a.Status.Interfaces, b.Status.Interfaces) || // the addresses that Nodes may have
		!slices.Equal(a.Status.Gateways, b.Status.Gateways)
}

func (c *caches) nodeAgents() []*v1alpha1.NodeAgent {
	return objects.List[*v1alpha1.NodeAgent](c.agents.GetStore())
}

// clusterID tells this cluster from others: the UID of its first Namespace; empty: it is not known yet.
func (c *caches) clusterID() string {
	object, there, _ := c.namespaces.GetStore().GetByKey(metav1.NamespaceSystem)
	if !there {
		return ""
	}
	return string(object.(*corev1.Namespace).UID)
}

func (c *caches) addressPools() []*v1alpha1.AddressPool {
	return objects.List[*v1alpha1.AddressPool](c.pools.GetStore())
}

func (c *caches) serviceCIDRs() []*networkingv1.ServiceCIDR {
	return objects.List[*networkingv1.ServiceCIDR](c.cidrs.GetStore())
}

func (c *caches) endpoints() []*discoveryv1.EndpointSlice {
	return objects.List[*discoveryv1.EndpointSlice](c.slices.GetStore())
}

// present are the claims that there are.
func (c *caches) present() []*allocator.Claim {
	var claims []*allocator.Claim
	for _, object := range objects.List[*networkingv1.IPAddress](c.claims.GetStore()) {
		if parsed, ok := allocator.ParseClaim(object); ok {
			claims = append(claims, parsed)
		}
	}
	return claims
}

func (c *caches) namespaceLabels() map[string]labels.Set {
	byName := map[string]labels.Set{}
	for _, namespace := range objects.List[*corev1.Namespace](c.namespaces.GetStore()) {
		byName[namespace.Name] = namespace.Labels
	}
	return byName
}
