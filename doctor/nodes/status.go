package nodes

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Observe looks at nodes once, at all if none are named, and finds the cause for each that is not Ready, or whose
// kubelet is not well. leaseName is that of the leader's Lease by the cluster's record. Empty: there is no record that
// one may see, and it is v1alpha1.LeaseName. The error says what could not be asked.
func Observe(ctx context.Context, c kubernetes.Interface, leaseName string, names []string) (*Report, error) {
	nodes, err := getNodes(ctx, c, names)
	if err != nil {
		return nil, err
	}
	f := &Facts{
		Nodes: nodes, every: len(names) == 0, LeaseNamespace: v1alpha1.Namespace, LeaseName: leaseName, Recorded: leaseName != "",
	}
	f.AskLease(ctx, c)
	f.Now = time.Now()
	statuses, leader := f.Statuses(names), f.leader()
	if !leader.held(f.Now) || len(below(statuses, Ready)) > 0 {
		f.askManager(ctx, c)
	}
	f.Heartbeats = listHeartbeats(ctx, c)
	f.Answers = AskKubelets(ctx, c, statuses, f.Heartbeats)
	return Judge(f, names), nil
}

func getNodes(ctx context.Context, c kubernetes.Interface, names []string) ([]corev1.Node, error) {
	if len(names) == 0 {
		list, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("list nodes: %w", err)
		}
		return list.Items, nil
	}
	var nodes []corev1.Node
	for _, name := range names {
		node, err := c.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("get node %s: %w", name, err)
		}
		nodes = append(nodes, *node)
	}
	return nodes, nil
}
