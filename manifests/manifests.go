// Package manifests renders the objects and the static pod of a cloud-controller-manager from a provider's profile.
//
// Start at [StaticPod], [Addon] and [RBAC]. The parts of the pods that are the same for every provider are the .yaml
// files beside this one. [github.com/ccmadm/ccmadm/manifests/apply] brings the objects into a cluster,
// [github.com/ccmadm/ccmadm/doctor/nodes] tells what becomes of its nodes.
//
// Reads: a profile and its values. Writes: nothing. The same input gives the same bytes.
// It will not: ask a cluster, or know a provider by name.
package manifests

import (
	"embed"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

//go:embed *.yaml monitoring/*.yaml
var files embed.FS

// Object is what the API server stores.
type Object = unstructured.Unstructured

// load decodes an embedded file over what into already has. An error is a mistake in the file, found by any test.
func load(name string, into any) error {
	data, err := files.ReadFile(name)
	if err != nil {
		return err
	}
	return decode(name, data, into)
}

func decode(name string, data []byte, into any) error {
	if err := yaml.UnmarshalStrict(data, into); err != nil {
		return fmt.Errorf("decode %s: %w", name, err)
	}
	return nil
}

// toObject returns what server-side apply shall send: without the status, which is not ours to own.
func toObject(typed metav1.Object) (*Object, error) {
	labels := typed.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[v1alpha1.ManagedByLabel] = v1alpha1.FieldManager
	typed.SetLabels(labels)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, fmt.Errorf("convert %s: %w", typed.GetName(), err)
	}
	delete(content, "status")
	return &Object{Object: content}, nil
}

func toObjects(typed ...metav1.Object) ([]*Object, error) {
	var list []*Object
	for _, t := range typed {
		o, err := toObject(t)
		if err != nil {
			return nil, err
		}
		list = append(list, o)
	}
	return list, nil
}

func objectMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: v1alpha1.Namespace}
}
