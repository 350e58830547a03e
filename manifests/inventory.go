package manifests

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/fluxcd/cli-utils/pkg/object"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// inventory is what was applied: the set of each object, by an ID that is a valid key of a ConfigMap.
type inventory map[string]string

func readInventory(ctx context.Context, c client.Client) (inventory, error) {
	o := inventory{}.object()
	err := c.Get(ctx, client.ObjectKeyFromObject(o), o)
	if apierrors.IsNotFound(err) {
		return inventory{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap/%s/%s: %w", Namespace, InventoryName, err)
	}
	data, _, err := unstructured.NestedStringMap(o.Object, "data")
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap/%s/%s: %w", Namespace, InventoryName, err)
	}
	return data, nil
}

// with returns the inventory as it is when the set consists of these objects.
func (inv inventory) with(set string, objects []*Object) inventory {
	next := inventory{}
	for id, s := range inv {
		if s != set {
			next[id] = s
		}
	}
	for _, o := range objects {
		next[object.UnstructuredToObjMetadata(o).String()] = set
	}
	return next
}

// stale returns what the set loses.
func (inv inventory) stale(set string, objects []*Object) ([]*Object, error) {
	next, lost := inv.with(set, objects), inventory{}
	for id, s := range inv {
		if _, kept := next[id]; !kept {
			lost[id] = s
		}
	}
	return lost.objects()
}

// objects returns all of it, with no more than is needed for deletion.
func (inv inventory) objects() ([]*Object, error) {
	mapper := kinds()
	var list []*Object
	for _, id := range slices.Sorted(maps.Keys(inv)) {
		m, err := object.ParseObjMetadata(id)
		if err != nil {
			return nil, fmt.Errorf("read ConfigMap/%s/%s: %w", Namespace, InventoryName, err)
		}
		mapping, err := mapper.RESTMapping(m.GroupKind)
		if err != nil {
			return nil, fmt.Errorf("read ConfigMap/%s/%s: %q: %w", Namespace, InventoryName, id, err)
		}
		o := &Object{}
		o.SetGroupVersionKind(mapping.GroupVersionKind)
		o.SetNamespace(m.Namespace)
		o.SetName(m.Name)
		list = append(list, o)
	}
	return list, nil
}

// object returns the ConfigMap.
func (inv inventory) object() *Object {
	o := &Object{}
	o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	o.SetNamespace(Namespace)
	o.SetName(InventoryName)
	o.SetLabels(map[string]string{managedByLabel: FieldManager})
	if len(inv) > 0 {
		data := map[string]any{}
		for id, set := range inv {
			data[id] = set
		}
		o.Object["data"] = data
	}
	return o
}
