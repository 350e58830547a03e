package nodes

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// heartbeatOf returns a function that reads what a kubelet renews as long as it
// runs: its Lease, and the heartbeat in its Node. It asks the API server, since
// the caller's cache may still show the Node that had this name before.
func heartbeatOf(client kubernetes.Interface) func(context.Context, *corev1.Node) (string, error) {
	return func(ctx context.Context, node *corev1.Node) (string, error) {
		now, err := client.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		if now.UID != node.UID || now.Spec.ProviderID != node.Spec.ProviderID {
			return "", fmt.Errorf("another Node has taken the name")
		}
		heartbeat := ""
		for _, condition := range now.Status.Conditions {
			if condition.Type == corev1.NodeReady {
				if condition.Status == corev1.ConditionTrue {
					return "", fmt.Errorf("it is Ready by now")
				}
				heartbeat = condition.LastHeartbeatTime.UTC().String()
			}
		}
		lease, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, node.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return heartbeat, nil
		case err != nil:
			return "", err
		}
		return heartbeat + " " + lease.ResourceVersion, nil
	}
}
