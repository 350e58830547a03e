package serving

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/clientcmd"
)

// reserved is what others than Nodes have: the certificates come from the CA that clients of the API server trust.
type reserved struct {
	services  []netip.Prefix
	endpoints sets.Set[string] // hosts of API servers; control planes may have them
}

// reserved asks for the ranges of Services, and for where clients reach the API server.
func (a *Approver) reserved(ctx context.Context) (reserved, error) {
	r := reserved{endpoints: sets.New(canonical(a.Endpoint))}
	ranges, err := a.Client.NetworkingV1().ServiceCIDRs().List(ctx, metav1.ListOptions{})
	if err != nil && !apierrors.IsNotFound(err) { // an API server before 1.33 has none
		return r, fmt.Errorf("list ServiceCIDRs: %w", err)
	}
	if err == nil {
		for _, service := range ranges.Items {
			prefixes, err := ParseRanges(service.Spec.CIDRs)
			if err != nil {
				return r, fmt.Errorf("read ServiceCIDR/%s: %w", service.Name, err)
			}
			r.services = append(r.services, prefixes...)
		}
	}
	info, err := a.Client.CoreV1().ConfigMaps(metav1.NamespacePublic).Get(ctx, clusterInfo, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return r, nil // not a cluster of kubeadm's
	case err != nil:
		return r, fmt.Errorf("get ConfigMap/%s/%s: %w", metav1.NamespacePublic, clusterInfo, err)
	}
	return r, r.addEndpoints(info.Data["kubeconfig"])
}

// clusterInfo is the ConfigMap in which kubeadm says where the API server is reached.
const clusterInfo = "cluster-info"

func (r *reserved) addEndpoints(kubeconfig string) error {
	config, err := clientcmd.Load([]byte(kubeconfig))
	if err != nil {
		return fmt.Errorf("read ConfigMap/%s/%s: %w", metav1.NamespacePublic, clusterInfo, err)
	}
	for _, cluster := range config.Clusters {
		u, err := url.Parse(cluster.Server)
		if err != nil {
			return fmt.Errorf("read ConfigMap/%s/%s: %w", metav1.NamespacePublic, clusterInfo, err)
		}
		r.endpoints.Insert(canonical(u.Hostname()))
	}
	return nil
}
