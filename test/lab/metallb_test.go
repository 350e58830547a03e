//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMetalLBTests_Module: the tests are those of a version that has them in its module, with the reporter of this folder.
func TestMetalLBTests_Module(t *testing.T) {
	version, err := (builder{source: "."}).required(metallbTests, metallbModule)
	if err != nil {
		t.Fatal(err)
	}
	if want := "v0.13.9"; version != want {
		t.Errorf("MetalLB's tests are of %s, want %s: later modules do not have them", version, want)
	}
	gomod, err := os.ReadFile(filepath.Join(metallbTests, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(gomod), "replace github.com/openshift-kni/k8sreporter => ./k8sreporter\n") {
		t.Error("go.mod has not the reporter of this folder")
	}
}

// TestMetalLB_Module: what is built is what the nested module pins, and its frr-k8s is the one of this folder.
func TestMetalLB_Module(t *testing.T) {
	if _, err := (builder{source: "."}).required(metallb, metallbModule); err != nil {
		t.Error(err)
	}
	gomod, err := os.ReadFile(filepath.Join(metallb, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{
		"\t" + metallbModule + "/controller", "\t" + metallbModule + "/speaker",
		"replace github.com/metallb/frr-k8s => ./frr-k8s",
	}
	for _, line := range lines {
		if !strings.Contains(string(gomod), line+"\n") {
			t.Errorf("go.mod has no line %q", line)
		}
	}
}
