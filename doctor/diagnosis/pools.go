package diagnosis

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// pools asks for AddressPools. A cluster that does not know them has none.
func (l *looking) pools(ctx context.Context, c kubernetes.Interface) {
	l.ask(partPools, func() (func(), error) {
		data, err := c.Discovery().RESTClient().Get().AbsPath("/apis", v1alpha1.APIVersion, "addresspools").
			Param("limit", fmt.Sprint(most)).DoRaw(ctx)
		if apierrors.IsNotFound(err) {
			return func() { l.snapshot.NoPools = true }, nil
		}
		if err != nil {
			return nil, err
		}
		var list v1alpha1.AddressPoolList
		if err := json.Unmarshal(data, &list); err != nil {
			return nil, fmt.Errorf("decode AddressPools: %w", err)
		}
		return func() {
			for _, p := range list.Items {
				ready := meta.FindStatusCondition(p.Status.Conditions, "Ready")
				l.snapshot.Pools = append(l.snapshot.Pools, Pool{
					Name: p.Name, Ready: ready, Disabled: p.Spec.Disabled,
					Old: ready != nil && ready.ObservedGeneration != p.Generation,
				})
			}
		}, nil
	})
}

// brokenPools are those that give nothing since something is wrong with them, whether a Service waits for it or not.
func brokenPools(v *view) []finding.Finding {
	var list []finding.Finding
	for _, p := range v.Pools {
		if p.Ready == nil || p.Old || p.Disabled || p.Ready.Status != metav1.ConditionFalse ||
			p.Ready.Reason != finding.PoolNotReady.Kind().Reason {
			continue
		}
		f := finding.PoolNotReady.New("AddressPool/"+p.Name, p.Ready.Message)
		f.Next = "kubectl edit addresspool " + p.Name
		list = append(list, f)
	}
	return list
}

// shownServices is how many Services a message names.
const shownServices = 3

// lostPools says that there is no pool while Services have addresses from one: deleting the definition of
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
