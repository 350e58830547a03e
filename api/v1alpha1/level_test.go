package v1alpha1_test

import (
	"os"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// A level that an AddressPool may name is announced, and no other one is.
func TestLevel_OfPools(t *testing.T) {
	var names []string
	for _, level := range []v1alpha1.Level{
		v1alpha1.LevelAuto, v1alpha1.LevelL2, v1alpha1.LevelBGP, v1alpha1.LevelNodeIP, "l2", "",
	} {
		if level.Announced() || level == v1alpha1.LevelAuto {
			names = append(names, string(level))
		} else if level.Elected() || level.OnLink() || level.BySession() {
			t.Errorf("level %q is not announced, and has traits", level)
		}
	}
	if inPools := levelsOfPools(t); !slices.Equal(names, inPools) {
		t.Errorf("announced are %q, and an AddressPool may name %q", names, inPools)
	}
}

// levelsOfPools are those that the API server lets through.
func levelsOfPools(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile("../../manifests/crds/ccmadm.dev_addresspools.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd map[string]any
	if err := yaml.Unmarshal(data, &crd); err != nil {
		t.Fatal(err)
	}
	versions, _, err := unstructured.NestedSlice(crd, "spec", "versions")
	if err != nil || len(versions) != 1 {
		t.Fatalf("%d versions: %v", len(versions), err)
	}
	levels, found, err := unstructured.NestedStringSlice(versions[0].(map[string]any),
		"schema", "openAPIV3Schema", "properties", "spec", "properties", "level", "enum")
	if err != nil || !found {
		t.Fatalf("find the levels of an AddressPool: %v", err)
	}
	return levels
}
