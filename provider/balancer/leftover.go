package balancer

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cloud-provider/service/helpers"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/balancer/evaluation"
)

// forgotten are Services that are no longer ours and still have our condition: of another type, of another class, or being
// deleted. While upstream's finalizer is there, the service controller deletes the load balancer and clears the status.
// Without it nothing else would: the owner of a Service can remove that finalizer and add another one.
func forgotten(services []*corev1.Service) []*corev1.Service {
	var list []*corev1.Service
	for _, service := range services {
		cleans := service.DeletionTimestamp != nil && helpers.HasLBFinalizer(service)
		said := allocator.Condition(service) != nil || len(allocator.AskedOf(service)) > 0
		if !allocator.Served(service) && !cleans && said {
			list = append(list, service)
		}
	}
	return list
}

// forget removes from such a Service the condition and, if it is being deleted, the addresses. kube-proxy serves them until
// the object is gone, also when another Service has them. Asked is where an IPAM may still have an address for it.
func forget(service *corev1.Service, asked []allocator.LeaseKey, now time.Time) *evaluation.Status {
	st := &evaluation.Status{Service: service, After: service.DeepCopy()}
	meta.RemoveStatusCondition(&st.After.Status.Conditions, v1alpha1.LoadBalancerReady)
	allocator.RecordAsked(st.After, asked, now)
	if service.DeletionTimestamp != nil {
		st.After.Status.LoadBalancer.Ingress = nil
	}
	return st
}
