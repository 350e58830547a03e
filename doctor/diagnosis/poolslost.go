package diagnosis

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// shownServices is how many Services a message names.
const shownServices = 3

// lostPools says that there is no pool while Services have addresses from one: whoever deletes the definition of
// AddressPool deletes every pool.
func lostPools(v *view) []finding.Finding {
	if len(v.Pools) > 0 {
		return nil
	}
	var names []string
	for i := range v.Services {
		svc := &v.Services[i]
		if svc.Spec.Type == corev1.ServiceTypeLoadBalancer && svc.DeletionTimestamp == nil &&
			svc.Annotations[v1alpha1.AllocatedAnnotation] != "" && !HasNodeAddresses(svc) {
			names = append(names, svc.Namespace+"/"+svc.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	shown := strings.Join(names[:min(len(names), shownServices)], ", ")
	f := finding.PoolNotFound.New("AddressPool", fmt.Sprintf(
		"there is no AddressPool, and Services have addresses from one: %d, such as %s", len(names), shown))
	f.Next = "kubectl apply -f FILE with the AddressPools, from a backup; kubectl get crd addresspools." +
		v1alpha1.GroupName + " shows whether they are defined, and ccmadm apply brings the definition back"
	return []finding.Finding{f}
}

// nodeIPReason is what the manager says of a Service that needs no pool any more.
const nodeIPReason = "NodeIP"

// HasNodeAddresses tells whether a Service has the addresses of Nodes, and so needs no pool.
func HasNodeAddresses(svc *corev1.Service) bool {
	c := meta.FindStatusCondition(svc.Status.Conditions, v1alpha1.LoadBalancerReady)
	return c != nil && c.Reason == nodeIPReason
}
