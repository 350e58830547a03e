package apply

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests"
)

// A definition that somebody holds with a finalizer is not applied over: it would take with it what was applied.
func TestCluster_Apply_WhatIsBeingDeleted(t *testing.T) {
	c := newCluster(t, cluster.Config, false)
	definition := &manifests.Object{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{
			"name": "things.leaving.example", "labels": map[string]any{v1alpha1.ManagedByLabel: v1alpha1.FieldManager},
		},
		"spec": map[string]any{
			"group": "leaving.example", "scope": "Cluster",
			"names": map[string]any{"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}},
			}},
		},
	}}
	set := []*manifests.Object{definition}
	awaited := ""
	subjects := []string{"CustomResourceDefinition/things.leaving.example", "ConfigMap/kube-system/ccmadm-applied"}
	wantChanges(t, changesWith("created", subjects...), apply(t, c, "things", set))
	held := func(finalizers string) {
		t.Helper()
		o := new(unstructured.Unstructured)
		o.SetGroupVersionKind(definition.GroupVersionKind())
		o.SetName(definition.GetName())
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":`+finalizers+`}}`))
		if err := c.manager.Client().Patch(t.Context(), o, patch); err != nil {
			t.Fatal(err)
		}
		awaited = o.GetAnnotations()[v1alpha1.AwaitedAnnotation]
	}
	held(`["leaving.example/held","customresourcecleanup.apiextensions.k8s.io"]`)
	if err := c.manager.Client().Delete(t.Context(), definition.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	_, err := c.Apply(t.Context(), "things", set)
	leaving := new(LeavingError)
	if !errors.As(err, &leaving) || leaving.Since.IsZero() {
		t.Fatalf("applied over what goes: %v", err)
	}
	held("null")
	if awaited == "" {
		t.Error("the API server was not made to look again")
	}
	if changes := apply(t, c, "things", set); changes[0].Action != "created" {
		t.Errorf("once it is gone: %v", changes)
	}
}
