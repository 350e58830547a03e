package apply

import (
	"errors"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests"
)

// things is a CustomResourceDefinition of ours.
func things(group string) *manifests.Object {
	return &manifests.Object{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{
			"name": "things." + group, "labels": map[string]any{v1alpha1.ManagedByLabel: v1alpha1.FieldManager},
		},
		"spec": map[string]any{
			"group": group, "scope": "Cluster",
			"names": map[string]any{"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}},
			}},
		},
	}}
}

// An earlier ccmadm applies the same set without a kind that it does not know yet. Its objects are the user's.
func TestCluster_Apply_KeepsDefinitions(t *testing.T) {
	c := newCluster(t, cluster.Config, false)
	definition, subject := things("kept.example"), "CustomResourceDefinition/things.kept.example"
	apply(t, c, "things", []*manifests.Object{definition})
	if changes := apply(t, c, "things", nil); slices.ContainsFunc(changes, func(c Change) bool { return c.Subject == subject }) {
		t.Errorf("a definition that the set has lost: %v", changes)
	}
	changes, err := c.Remove(t.Context())
	if err != nil || !slices.ContainsFunc(changes, func(c Change) bool { return c.Subject == subject && c.Action == "deleted" }) {
		t.Errorf("removal of all: %v, %v", changes, err)
	}
}

// A definition that a finalizer holds is not applied over: it would take with it what was applied.
func TestCluster_Apply_WhatIsBeingDeleted(t *testing.T) {
	c := newCluster(t, cluster.Config, false)
	definition := things("leaving.example")
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
