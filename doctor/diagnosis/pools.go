package diagnosis

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Pool is an AddressPool of the provider onprem, with what its manager says of it.
type Pool struct {
	Name  string            `json:"name"`
	Ready *metav1.Condition `json:"ready,omitempty"`
	// Old says that the condition is not about the pool as it is.
	Old bool `json:"old,omitempty"`
	// Disabled is what somebody has wanted.
	Disabled bool `json:"disabled,omitempty"`
}

// pools asks for AddressPools. A cluster that does not know them has none.
func (l *looking) pools(ctx context.Context, c kubernetes.Interface) {
	l.ask(partPools, func() (func(), error) {
		data, err := c.Discovery().RESTClient().Get().AbsPath("/apis", v1alpha1.APIVersion, "addresspools").
			Param("limit", fmt.Sprint(most)).DoRaw(ctx)
		if apierrors.IsNotFound(err) {
			return nil, nil
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
