package agent

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/controlplane"
)

// lean leaves of an object what an agent reads: every agent has all of them. A new reader says here what it needs. Informers may call it
// twice for an object.
func lean(object any) (any, error) {
	switch o := object.(type) {
	case *discoveryv1.EndpointSlice:
		labels, addresses := map[string]string{discoveryv1.LabelServiceName: o.Labels[discoveryv1.LabelServiceName]}, controlplane.IsServers(o)
		if v1alpha1.WantsEgress(o.Labels) {
			labels[v1alpha1.EgressLabel], addresses = "true", true
		}
		o.ObjectMeta, o.Ports = identity(o.ObjectMeta), nil
		o.Labels = labels
		endpoints := make([]discoveryv1.Endpoint, len(o.Endpoints)) // what was decoded has room for more
		for i, e := range o.Endpoints {
			endpoints[i] = discoveryv1.Endpoint{NodeName: e.NodeName, Conditions: e.Conditions}
			if addresses {
				endpoints[i].Addresses = e.Addresses
			}
		}
		o.Endpoints = endpoints
	case *corev1.Service:
		wanted, created := v1alpha1.WantsEgress(o.Labels), o.CreationTimestamp
		o.ObjectMeta, o.Status = identity(o.ObjectMeta), corev1.ServiceStatus{}
		if wanted {
			o.Labels, o.CreationTimestamp = map[string]string{v1alpha1.EgressLabel: "true"}, created
		}
		o.Spec = corev1.ServiceSpec{
			ExternalTrafficPolicy: o.Spec.ExternalTrafficPolicy,
			HealthCheckNodePort:   o.Spec.HealthCheckNodePort,
		}
	case *v1alpha1.NodeAgent:
		o.ManagedFields, o.Status.Voters = nil, nil // an agent that starts reads them once, see starts
	case *corev1.Node:
		o.ManagedFields, o.Status.Images = nil, nil
	default:
		if m, err := meta.Accessor(object); err == nil {
			m.SetManagedFields(nil)
		}
	}
	return object, nil
}

// identity is what caches and Events need.
func identity(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion}
}
