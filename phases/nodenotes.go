package phases

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/journal"
)

// askNode returns a Node; an API server that does not answer is asked again.
func askNode(ctx context.Context, client kubernetes.Interface, name string) (node *corev1.Node, err error) {
	err = journal.Ask(ctx, func(ctx context.Context) (err error) {
		node, err = client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		return err
	})
	return node, err
}

// askNodes returns all Nodes; an API server that does not answer is asked again.
func askNodes(ctx context.Context, client kubernetes.Interface) (list *corev1.NodeList, err error) {
	err = journal.Ask(ctx, func(ctx context.Context) (err error) {
		list, err = client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		return err
	})
	return list, err
}

// annotateNode notes something on a Node; an empty value takes the note back.
func annotateNode(ctx context.Context, client kubernetes.Interface, name, annotation, value string) error {
	var note any // null removes it
	if value != "" {
		note = value
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{annotation: note}}})
	if err != nil {
		return err
	}
	return journal.Ask(ctx, func(ctx context.Context) error {
		_, err := client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch,
			metav1.PatchOptions{FieldManager: v1alpha1.FieldManager})
		return err
	})
}
