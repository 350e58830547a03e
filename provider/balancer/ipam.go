package balancer

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/balancer/ipam"
)

// ordersOf are what IPAMs are to be asked by the plan, for a cluster that others know by that ID. What the caches do not have a record of
// yet is asked after the next pass: a manager that ends in between would leave an address in the IPAM for ever.
func ordersOf(p *allocator.Plan, cluster string, objects []*v1alpha1.AddressPool) map[allocator.LeaseKey]ipam.Order {
	pools := map[string]*v1alpha1.PoolIPAM{}
	for _, pool := range objects {
		pools[pool.Name] = pool.Spec.IPAM
	}
	orders := map[allocator.LeaseKey]ipam.Order{}
	for key, call := range p.Calls {
		if of := pools[key.Pool]; of != nil && call.Recorded && cluster != "" {
			orders[key] = ipam.Order{LeaseCall: *call, IPAM: *of, Cluster: cluster}
		}
	}
	for _, key := range p.Left {
		klog.InfoS("An IPAM keeps an address, since its AddressPool is gone or names no IPAM any more", "pool", key.Pool, "uid", key.UID,
			"family", key.Family())
	}
	for _, key := range p.Recalled {
		klog.InfoS("An IPAM may have an address for a Service that is gone: releasing it", "pool", key.Pool, "uid", key.UID,
			"family", key.Family())
	}
	return orders
}

// ipamTokens reads the Secret with tokens of IPAMs; nil: there is none.
func ipamTokens(client kubernetes.Interface) func(context.Context) (map[string][]byte, error) {
	return func(ctx context.Context) (map[string][]byte, error) {
		secret, err := client.CoreV1().Secrets(v1alpha1.Namespace).Get(ctx, v1alpha1.IPAMSecretName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return secret.Data, nil
	}
}

// clearedBy are the Services that want no address any more, and for which no IPAM has one by the plan that no claim has.
func clearedBy(s *allocator.Snapshot, p *allocator.Plan) map[types.UID]bool {
	wants := map[types.UID]bool{}
	for _, as := range p.Services {
		wants[as.Service.UID] = true
	}
	cleared := map[types.UID]bool{}
	for uid := range s.Asked {
		if !wants[uid] && len(p.Records[uid]) == 0 {
			cleared[uid] = true
		}
	}
	return cleared
}
