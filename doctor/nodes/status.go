package nodes

import (
	"cmp"
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Status looks at nodes once, at all if none are named, and finds the cause for each that is not Ready. The Lease is
// that of the leader; empty is LeaseName.
func Observe(ctx context.Context, c kubernetes.Interface, leaseName string, names []string) ([]Status, error) {
	nodes, err := getNodes(ctx, c, names)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		for _, n := range nodes {
			names = append(names, n.Name)
		}
	}
	find := func(name string) *corev1.Node {
		for i := range nodes {
			if nodes[i].Name == name {
				return &nodes[i]
			}
		}
		return nil
	}
	leaseName = cmp.Or(leaseName, v1alpha1.LeaseName)
	lease := getLease(ctx, c, leaseName)
	var list []Status
	for _, name := range names {
		list = append(list, StatusOf(name, find(name), lease, time.Now()))
	}
	explain(ctx, c, leaseName, find, list)
	return list, nil
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

// getLease returns nil where there is none, or where one may not see it: a worker's credentials show only its own.
func getLease(ctx context.Context, c kubernetes.Interface, name string) *coordinationv1.Lease {
	lease, err := c.CoordinationV1().Leases(v1alpha1.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return lease
}
