package nodes

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/config"
)

// TakeSnapshot reads a cluster for NewPlan: Nodes, the Leases of their kubelets,
// and the last good inventory.
func TakeSnapshot(ctx context.Context, client kubernetes.Interface, c config.OnPremConfiguration) (Snapshot, error) {
	s := Snapshot{Configuration: c, Heard: map[string]time.Time{}, Now: time.Now()}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return s, fmt.Errorf("list nodes: %w", err)
	}
	s.Nodes = nodes.Items
	leases, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, metav1.ListOptions{})
	if err != nil {
		return s, fmt.Errorf("list leases of kubelets: %w", err)
	}
	for _, lease := range leases.Items {
		if lease.Spec.RenewTime != nil {
			s.Heard[lease.Name] = lease.Spec.RenewTime.Time
		}
	}
	s.LastGood, err = LastGood(client).Load(ctx)
	return s, err
}
