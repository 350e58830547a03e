//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
