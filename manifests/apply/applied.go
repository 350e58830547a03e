package apply

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

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests"
)

// applied is what was applied: the set of each object, by an ID that is a valid key of a ConfigMap.
type applied map[string]string

func readApplied(ctx context.Context, c client.Client) (applied, error) {
	o := applied{}.object()
	err := c.Get(ctx, client.ObjectKeyFromObject(o), o)
	if apierrors.IsNotFound(err) {
		return applied{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap/%s/%s: %w", v1alpha1.Namespace, v1alpha1.AppliedName, err)
	}
	data, _, err := unstructured.NestedStringMap(o.Object, "data")
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap/%s/%s: %w", v1alpha1.Namespace, v1alpha1.AppliedName, err)
	}
	return data, nil
}

// with returns the inventory as it is when the set consists of these objects.
func (inv applied) with(set Set, objects []*manifests.Object) applied {
	next := applied{}
	for id, s := range inv {
		if s != string(set) {
			next[id] = s
		}
	}
	for _, o := range objects {
		next[object.UnstructuredToObjMetadata(o).String()] = string(set)
	}
	return next
}

// union has what is in inv, and these objects.
func (inv applied) union(set Set, objects []*manifests.Object) applied {
	all := inv.with(set, objects)
	for id, s := range inv {
		if _, known := all[id]; !known {
			all[id] = s
		}
	}
	return all
}

// stale returns what the set loses.
func (inv applied) stale(set Set, objects []*manifests.Object) ([]*manifests.Object, error) {
	next, lost := inv.with(set, objects), applied{}
	for id, s := range inv {
		if _, kept := next[id]; !kept {
			lost[id] = s
		}
	}
	return lost.objects()
}

// objects returns all of it, with no more than is needed for deletion.
func (inv applied) objects() ([]*manifests.Object, error) {
	mapper := kinds()
	var list []*manifests.Object
	for _, id := range slices.Sorted(maps.Keys(inv)) {
		m, err := object.ParseObjMetadata(id)
		if err != nil {
			return nil, fmt.Errorf("read ConfigMap/%s/%s: %w", v1alpha1.Namespace, v1alpha1.AppliedName, err)
		}
		mapping, err := mapper.RESTMapping(m.GroupKind)
		if err != nil {
			return nil, fmt.Errorf("read ConfigMap/%s/%s: %q: %w", v1alpha1.Namespace, v1alpha1.AppliedName, id, err)
		}
		o := &manifests.Object{}
		o.SetGroupVersionKind(mapping.GroupVersionKind)
		o.SetNamespace(m.Namespace)
		o.SetName(m.Name)
		list = append(list, o)
	}
	return list, nil
}

// removal returns all that was applied, in the order in which it is deleted: then the list of it, and the cluster's
// record behind that, which may be there when the list has gone.
func removal(ctx context.Context, c client.Client) ([]*manifests.Object, error) {
	inv, err := readApplied(ctx, c)
	if err != nil {
		return nil, err
	}
	all, err := inv.objects()
	if err != nil {
		return nil, err
	}
	record := configMap(v1alpha1.RecordName)
	all = slices.DeleteFunc(all, func(o *manifests.Object) bool {
		return o.GroupVersionKind() == record.GroupVersionKind() && o.GetNamespace() == record.GetNamespace() &&
			o.GetName() == record.GetName()
	})
	for _, name := range []string{v1alpha1.AppliedName, v1alpha1.RecordName} { // an empty list is one, too
		last := configMap(name)
		switch err := c.Get(ctx, client.ObjectKeyFromObject(last), last); {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("look for ConfigMap/%s/%s: %w", v1alpha1.Namespace, name, err)
		default:
			all = append(all, configMap(name))
		}
	}
	return all, nil
}

// object returns the ConfigMap.
func (inv applied) object() *manifests.Object {
	o := configMap(v1alpha1.AppliedName)
	o.SetLabels(map[string]string{v1alpha1.ManagedByLabel: v1alpha1.FieldManager})
	if len(inv) > 0 {
		data := map[string]any{}
		for id, set := range inv {
			data[id] = set
		}
		o.Object["data"] = data
	}
	return o
}

func configMap(name string) *manifests.Object {
	o := &manifests.Object{}
	o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	o.SetNamespace(v1alpha1.Namespace)
	o.SetName(name)
	return o
}
