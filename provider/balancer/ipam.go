package balancer

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/balancer/ipam"
)

// ask tells the keeper what IPAMs are to be asked by the plan. What the caches do not have a record of yet is asked after the next pass:
// a manager that ends in between would leave an address in the IPAM for ever.
func (b *Balancer) ask(p *allocator.Plan) {
	cluster := b.clusterID()
	pools := map[string]*v1alpha1.PoolIPAM{}
	for _, pool := range b.caches.addressPools() {
		pools[pool.Name] = pool.Spec.IPAM
	}
	orders := map[allocator.LeaseKey]ipam.Order{}
	for key, call := range p.Calls {
		if of := pools[key.Pool]; of != nil && call.Recorded && cluster != "" {
			orders[key] = ipam.Order{LeaseCall: *call, IPAM: *of, Cluster: cluster}
		}
	}
	b.ipam.Set(orders)
	for _, key := range p.Left {
		klog.InfoS("An IPAM keeps an address, since its AddressPool is gone or names no IPAM any more", "pool", key.Pool, "uid", key.UID,
			"family", key.Family())
	}
}

// clusterID tells this cluster from others: the UID of its first Namespace.
func (b *Balancer) clusterID() string {
	object, there, _ := b.caches.namespaces.GetStore().GetByKey(metav1.NamespaceSystem)
	if !there {
		return ""
	}
	return string(object.(*corev1.Namespace).UID)
}

// ipamTokens reads the Secret with tokens of IPAMs; nil: there is none.
func (b *Balancer) ipamTokens(ctx context.Context) (map[string][]byte, error) {
	secret, err := b.Client.CoreV1().Secrets(v1alpha1.Namespace).Get(ctx, v1alpha1.IPAMSecretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // no Secret is no error
	}
	if err != nil {
		return nil, err
	}
	return secret.Data, nil
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

// leased says where an IPAM may have an address for a Service that no claim has; empty: nowhere.
func (b *Balancer) leased(service *corev1.Service) string {
	known := b.cached(service)
	if known == nil {
		return ""
	}
	keys := allocator.AskedOf(known)
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(keys) == 0 || b.cleared[service.UID] {
		return ""
	}
	key := keys[0]
	leases := b.ipam.Leases()
	if i := slices.IndexFunc(keys, func(k allocator.LeaseKey) bool { return leases[k].Problem != "" }); i >= 0 {
		key = keys[i]
	}
	if problem := leases[key].Problem; problem != "" {
		return fmt.Sprintf("release its address: the IPAM of AddressPool/%s %s", key.Pool, problem)
	}
	return fmt.Sprintf("release its address: the IPAM of AddressPool/%s has not answered yet", key.Pool)
}
