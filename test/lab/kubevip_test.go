//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestKubeVIP_Module: what is built is what the nested module pins, and it is the whole of what is built from it.
func TestKubeVIP_Module(t *testing.T) {
	if _, err := (builder{source: "."}).required(kubevip, kubevipModule); err != nil {
		t.Error(err)
	}
	gomod, err := os.ReadFile(filepath.Join(kubevip, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(gomod), "\ntool "+kubevipModule+"\n") {
		t.Errorf("go.mod has no line for tool %s", kubevipModule)
	}
}
