package main

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/cache"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
)

// filters say whether a view may be another one after an event; before is nil where an object is new. Of informers that
// have none, everything matters.
func (c *caches) filters() map[cache.SharedIndexInformer]func(before, after any) bool {
	return map[cache.SharedIndexInformer]func(before, after any) bool{
		c.nodes: nodeMatters, c.agents: agentMatters, c.services: c.serviceMatters, c.slices: c.sliceMatters,
	}
}

// nodeMatters is false for what kubelets say to show that they live.
func nodeMatters(before, after any) bool {
	a, known := before.(*corev1.Node)
	b, is := after.(*corev1.Node)
	return !known || !is || a.UID != b.UID || (a.DeletionTimestamp == nil) != (b.DeletionTimestamp == nil) ||
		!maps.Equal(a.Labels, b.Labels) || !equality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints) ||
		!slices.Equal(a.Status.Addresses, b.Status.Addresses) ||
		!slices.EqualFunc(a.Status.Conditions, b.Status.Conditions, func(x, y corev1.NodeCondition) bool {
			x.LastHeartbeatTime = y.LastHeartbeatTime
			return equality.Semantic.DeepEqual(x, y)
		})
}

// agentMatters is about what others do with a report: who may take an address, and who has a router.
func agentMatters(before, after any) bool {
	a, known := before.(*v1alpha1.NodeAgent)
	b, is := after.(*v1alpha1.NodeAgent)
	return !known || !is || a.Status.Draining != b.Status.Draining || a.Status.Proxy != b.Status.Proxy ||
		!equality.Semantic.DeepEqual(a.Status.Interfaces, b.Status.Interfaces) ||
		!slices.EqualFunc(a.Status.Sessions, b.Status.Sessions, func(x, y v1alpha1.BGPSession) bool {
			return x.Peer == y.Peer && x.State == y.State
		})
}

// serviceMatters is about those with externalTrafficPolicy Local, and those whose connections agents carry: of all
// others the claims say everything.
func (c *caches) serviceMatters(before, after any) bool {
	return local(before) || local(after) || c.proxied(after)
}

// proxied says whether the Service has an address of level Proxy.
func (c *caches) proxied(service any) bool {
	name, err := cache.MetaNamespaceKeyFunc(service)
	if err != nil {
		return false
	}
	claims, err := c.claims.GetIndexer().IndexKeys(byProxied, name)
	return err == nil && len(claims) > 0
}

// byProxied finds claims of level Proxy by their Services.
const byProxied = "proxied"

func indexProxied(object any) ([]string, error) {
	var names []string
	if address, is := object.(*networkingv1.IPAddress); is {
		if claim, ok := announce.ParseClaim(address); ok && claim.Level == v1alpha1.LevelProxy {
			for _, name := range claim.Services {
				names = append(names, name.String())
			}
		}
	}
	return names, nil
}

func local(object any) bool {
	s, is := object.(*corev1.Service)
	return is && s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// sliceMatters is about the same Services. One that is not known yet comes with an event of its own.
func (c *caches) sliceMatters(_, after any) bool {
	slice, is := after.(*discoveryv1.EndpointSlice)
	if !is {
		return true
	}
	name := slice.Namespace + "/" + slice.Labels[discoveryv1.LabelServiceName]
	service, there, err := c.services.GetStore().GetByKey(name)
	return err != nil || there && (local(service) || c.proxied(service))
}
