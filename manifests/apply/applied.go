package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fluxcd/cli-utils/pkg/object"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests"
)

// applied has the set of each object that was applied, by an ID that is a valid key of a ConfigMap.
type applied map[string]string

// readApplied returns the list with what only the former list has, and that former list's ConfigMap, or nil. Both exist
// where a migration was interrupted, or an older ccmadm has run after it: what that applied is pruned as well.
func readApplied(ctx context.Context, c client.Client) (list applied, former *manifests.Object, err error) {
	list = applied{}
	for _, name := range []string{v1alpha1.AppliedName, v1alpha1.FormerAppliedName} {
		o := configMap(name)
		err := c.Get(ctx, client.ObjectKeyFromObject(o), o)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read ConfigMap/%s/%s: %w", v1alpha1.Namespace, name, err)
		}
		data, _, err := unstructured.NestedStringMap(o.Object, "data")
		if err != nil {
			return nil, nil, fmt.Errorf("read ConfigMap/%s/%s: %w", v1alpha1.Namespace, name, err)
		}
		list.add(data)
		if name == v1alpha1.FormerAppliedName {
			former = o
		}
	}
	return list, former, nil
}

// add keeps what the list has.
func (list applied) add(other applied) {
	for id, set := range other {
		if _, known := list[id]; !known {
			list[id] = set
		}
	}
}

// with returns the list as it is when the set consists of these objects. A CustomResourceDefinition stays in it: with one the API
// server deletes all objects of its kind, which users have made, and a set also loses one when an earlier ccmadm applies it, that
// does not know the kind yet. It is deleted by [Cluster.Remove] alone.
func (list applied) with(set Set, objects []*manifests.Object) applied {
	next := applied{}
	for id, s := range list {
		if s != string(set) || strings.HasSuffix(id, "_apiextensions.k8s.io_CustomResourceDefinition") {
			next[id] = s
		}
	}
	for _, o := range objects {
		next[object.UnstructuredToObjMetadata(o).String()] = string(set)
	}
	return next
}

// union has what is in the list, and these objects.
func (list applied) union(set Set, objects []*manifests.Object) applied {
	all := list.with(set, objects)
	all.add(list)
	return all
}

// stale returns what the set loses.
func (list applied) stale(ctx context.Context, c client.Client, set Set, objects []*manifests.Object) ([]*manifests.Object, error) {
	next, lost := list.with(set, objects), applied{}
	for id, s := range list {
		if _, kept := next[id]; !kept {
			lost[id] = s
		}
	}
	return lost.objects(ctx, c)
}

// objects returns all of it, with no more than is needed for deletion. Of a kind that the API server does not have there is nothing.
// Where the API server cannot say, an error names what would be left behind.
func (list applied) objects(ctx context.Context, c client.Client) ([]*manifests.Object, error) {
	var all []*manifests.Object
	for _, id := range slices.Sorted(maps.Keys(list)) {
		m, err := object.ParseObjMetadata(id)
		if err != nil {
			return nil, fmt.Errorf("read ConfigMap/%s/%s: %w", v1alpha1.Namespace, v1alpha1.AppliedName, err)
		}
		mapping, err := mappingOf(ctx, c, m.GroupKind)
		if err != nil {
			return nil, finding.Errorf("delete %s %s: the API server cannot be asked for its kind: %w", m.GroupKind, m.Name, err).
				WithHint("a newer ccmadm applied it: use that one, or run this again when the API server serves the group %q", m.GroupKind.Group)
		}
		if mapping == nil {
			continue
		}
		o := &manifests.Object{}
		o.SetGroupVersionKind(mapping.GroupVersionKind)
		o.SetNamespace(m.Namespace)
		o.SetName(m.Name)
		all = append(all, o)
	}
	return all, nil
}

// mappingOf is nil for a kind that the API server does not have: its definition was deleted, and its objects with it. Where there is a
// definition, a fresh API server does not serve it yet.
func mappingOf(ctx context.Context, c client.Client, kind schema.GroupKind) (*meta.RESTMapping, error) {
	mapping, err := c.RESTMapper().RESTMapping(kind)
	var failed *apiutil.ErrResourceDiscoveryFailed // which passes for a kind that is not there
	if !meta.IsNoMatchError(err) || errors.As(err, &failed) {
		return mapping, err
	}
	defined, err := first(ctx, c, definition(), func(o map[string]any) bool { return defines(o, kind) })
	if err == nil && defined != "" {
		err = fmt.Errorf("it does not serve what CustomResourceDefinition/%s defines", defined)
	}
	if err != nil {
		return nil, err
	}
	away, err := first(ctx, c, aggregated(), func(o map[string]any) bool { return isAway(o, kind.Group) })
	if err == nil && away != "" {
		err = fmt.Errorf("the server of APIService/%s does not answer", away)
	}
	return nil, err
}

// first is the name of the first object of a kind for which is says yes; empty: there is none.
func first(ctx context.Context, c client.Client, kind schema.GroupVersionKind, is func(map[string]any) bool) (string, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	if err := c.List(ctx, list); err != nil {
		return "", fmt.Errorf("list %ss: %w", kind.Kind, err)
	}
	for _, o := range list.Items {
		if is(o.Object) {
			return o.GetName(), nil
		}
	}
	return "", nil
}

// defines tells whether a CustomResourceDefinition is that of a kind.
func defines(definition map[string]any, kind schema.GroupKind) bool {
	group, _, _ := unstructured.NestedString(definition, "spec", "group")
	name, _, _ := unstructured.NestedString(definition, "spec", "names", "kind")
	return group == kind.Group && name == kind.Kind
}

// aggregated is the kind of an API that another server than the API server serves.
func aggregated() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}
}

// isAway tells whether an APIService has a group whose server does not answer: the API server lists that group without kinds.
func isAway(service map[string]any, group string) bool {
	of, _, _ := unstructured.NestedString(service, "spec", "group")
	_, elsewhere, _ := unstructured.NestedMap(service, "spec", "service")
	conditions, _, _ := unstructured.NestedSlice(service, "status", "conditions")
	return of == group && elsewhere && !slices.ContainsFunc(conditions, func(c any) bool {
		condition, _ := c.(map[string]any)
		return condition["type"] == "Available" && condition["status"] == "True"
	})
}

// removal returns all that was applied, in the order in which it is deleted: then the list of it, and the cluster's
// record after that, which may be there when the list has gone.
func removal(ctx context.Context, c client.Client) ([]*manifests.Object, error) {
	list, _, err := readApplied(ctx, c)
	if err != nil {
		return nil, err
	}
	all, err := list.objects(ctx, c)
	if err != nil {
		return nil, err
	}
	record := configMap(v1alpha1.RecordName)
	all = slices.DeleteFunc(all, func(o *manifests.Object) bool {
		return o.GroupVersionKind() == record.GroupVersionKind() && o.GetNamespace() == record.GetNamespace() &&
			o.GetName() == record.GetName()
	})
	for _, name := range []string{v1alpha1.AppliedName, v1alpha1.FormerAppliedName, v1alpha1.RecordName} { // an empty list is one, too
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
func (list applied) object() *manifests.Object {
	o := configMap(v1alpha1.AppliedName)
	o.SetLabels(map[string]string{v1alpha1.ManagedByLabel: v1alpha1.FieldManager})
	if len(list) > 0 {
		data := map[string]any{}
		for id, set := range list {
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
