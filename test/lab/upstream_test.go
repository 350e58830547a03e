//go:build linux

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/minors"
)

// TestUpstream_Modules: the tests are those of the version that the machines have.
func TestUpstream_Modules(t *testing.T) {
	b := builder{source: "."}
	for _, minor := range minors.Known() {
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

// TestUpstream_References: an image of ours has all names by which tests ask for it, and one that no test uses is an error.
func TestUpstream_References(t *testing.T) {
	var list []string
	for repository := range standIns() {
		list = append(list, repository+":1.0")
	}
	list = append(list, "registry.k8s.io/e2e-test-images/agnhost:0.9", "registry.k8s.io/e2e-test-images/perl:5.26")
	names, err := referencesOf(strings.Join(list, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"agnhost:1.0", "agnhost:0.9", "jessie-dnsutils:1.0"} {
		if !slices.Contains(names["agnhost"], "registry.k8s.io/e2e-test-images/"+want) {
			t.Errorf("agnhost stands for %v, and not for %s", names["agnhost"], want)
		}
	}
	for own, references := range names {
		if slices.Contains(references, "registry.k8s.io/e2e-test-images/perl:5.26") {
			t.Errorf("%s stands for perl", own)
		}
	}
	without := slices.DeleteFunc(slices.Clone(list), func(reference string) bool { return strings.Contains(reference, "nautilus") })
	if _, err := referencesOf(strings.Join(without, "\n")); err == nil || !strings.Contains(err.Error(), "e2e-test-images/nautilus") {
		t.Errorf("want an error that names nautilus, got %v", err)
	}
}
