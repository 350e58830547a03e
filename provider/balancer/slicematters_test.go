package balancer

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// Of an EndpointSlice it matters on which Nodes endpoints are ready, and only where externalTrafficPolicy is Local.
func TestSliceMatters(t *testing.T) {
	services := cache.NewStore(cache.MetaNamespaceKeyFunc)
	policies := map[string]corev1.ServiceExternalTrafficPolicy{"local": corev1.ServiceExternalTrafficPolicyLocal, "cluster": ""}
	for name, policy := range policies {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		s.Spec.Type, s.Spec.ExternalTrafficPolicy = corev1.ServiceTypeLoadBalancer, policy
		if err := services.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	c := &caches{services: &watched{SharedIndexInformer: stored{store: services}}}
	slice := func(change func(*discoveryv1.EndpointSlice)) *discoveryv1.EndpointSlice {
		s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "x", Labels: map[string]string{discoveryv1.LabelServiceName: "local"},
		}}
		s.Endpoints = []discoveryv1.Endpoint{{NodeName: new("n1"), Addresses: []string{"10.0.0.1"}}}
		if change != nil {
			change(s)
		}
		return s
	}
	terminating := func(serving bool) func(*discoveryv1.EndpointSlice) {
		return func(s *discoveryv1.EndpointSlice) {
			s.Endpoints[0].Conditions = discoveryv1.EndpointConditions{Ready: new(false), Serving: new(serving), Terminating: new(true)}
		}
	}
	of := func(name string) func(*discoveryv1.EndpointSlice) {
		return func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelServiceName] = name }
	}
	for _, tt := range []struct {
		name   string
		change func(*discoveryv1.EndpointSlice)
		want   bool
	}{
		{"an annotation", func(s *discoveryv1.EndpointSlice) { s.Annotations = map[string]string{"a": "b"} }, false},
		{"the pod's address", func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses[0] = "10.0.0.2" }, false},
		{"one more pod of the Node", func(s *discoveryv1.EndpointSlice) { s.Endpoints = append(s.Endpoints, s.Endpoints[0]) }, false},
		{"it terminates, and serves", terminating(true), false},
		{"it terminates", terminating(false), true},
		{"not ready", func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Conditions.Ready = new(false) }, true},
		{"another Node", func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].NodeName = new("n2") }, true},
		{"another Service", of("cluster"), true},
	} {
		if before, after := slice(nil), slice(tt.change); c.sliceMatters(before, after) != tt.want || c.sliceMatters(after, before) != tt.want {
			t.Errorf("%s matters: %t, want %t", tt.name, !tt.want, tt.want)
		}
	}
	if whole := slice(nil); !c.sliceMatters(whole, whole) {
		t.Error("one that comes or goes does not matter")
	}
	if other := slice(of("cluster")); c.sliceMatters(other, other) || c.sliceMatters(other, slice(of("none"))) {
		t.Error("one of a Service without externalTrafficPolicy Local matters")
	}
}

// stored is an informer of which only the store is used.
type stored struct {
	cache.SharedIndexInformer
	store cache.Store
}

// GetStore returns it.
func (s stored) GetStore() cache.Store { return s.store }
