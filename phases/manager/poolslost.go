package manager

import (
	"context"
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/diagnosis"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// sayLostPools warns where Services have addresses from pools and there is none: who deletes the definition of
// AddressPool deletes all pools, and apply brings back the definition only.
func sayLostPools(ctx context.Context, env *workflow.Env) error {
	if !env.Existing || env.DryRun && !env.Preview {
		return nil
	}
	client, err := workflow.Connect(env, machine.AdminConf)
	if err != nil {
		return err
	}
	names, err := withoutPool(ctx, client)
	switch {
	case err != nil:
		env.Sayf("warning, it is not known whether Services have lost their AddressPool: %v", err)
	case len(names) > 0:
		env.Sayf("warning, there is no AddressPool, and these have addresses from one: Service/%s; deleting the definition "+
			"deleted the pools: apply them again from a backup", strings.Join(names, ", Service/"))
	}
	return nil
}

// withoutPool are the Services with addresses of a pool, in a cluster that has none.
func withoutPool(ctx context.Context, client kubernetes.Interface) ([]string, error) {
	list, err := client.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range list.Items {
		s := &list.Items[i]
		if s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Annotations[v1alpha1.AllocatedAnnotation] != "" &&
			!diagnosis.HasNodeAddresses(s) {
			names = append(names, s.Namespace+"/"+s.Name)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	var pools v1alpha1.AddressPoolList
	data, err := client.CoreV1().RESTClient().Get().AbsPath("/apis", v1alpha1.APIVersion, "addresspools").
		Param("limit", "1").DoRaw(ctx)
	if err == nil {
		err = json.Unmarshal(data, &pools)
	}
	if err != nil && !apierrors.IsNotFound(err) || len(pools.Items) > 0 {
		return nil, err
	}
	return names, nil
}
