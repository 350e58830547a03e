//go:build linux

package main

import "testing"

// TestUpstream_Modules: the tests are those of the version that the machines have.
func TestUpstream_Modules(t *testing.T) {
	b := builder{source: "."}
	for _, minor := range []string{"1.34", "1.35", "1.36"} {
		const module = "k8s.io/kubernetes"
		machines, err := b.required("kubernetes-"+minor, module)
		if err != nil {
			t.Fatal(err)
		}
		tests, err := b.required("upstream-"+minor, module)
		if err != nil {
			t.Fatal(err)
		}
		if tests != machines {
			t.Errorf("Kubernetes %s: tests of %s for machines of %s", minor, tests, machines)
		}
	}
}
