//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmadm/ccmadm/test/lab/image"
)

func TestCCM_Spec(t *testing.T) {
	want := map[string]image.Spec{
		"aws": {
			Name:       "registry.k8s.io/provider-aws/cloud-controller-manager:v1",
			Files:      map[string]string{"/bin/aws-cloud-controller-manager": "out/aws-cloud-controller-manager"},
			Entrypoint: []string{"/bin/aws-cloud-controller-manager"},
		},
		"openstack": {
			Name:    "registry.k8s.io/provider-os/openstack-cloud-controller-manager:v1",
			Files:   map[string]string{"/bin/openstack-cloud-controller-manager": "out/openstack-cloud-controller-manager"},
			Command: []string{"/bin/openstack-cloud-controller-manager"},
		},
		"vsphere": {
			Name:       "registry.k8s.io/cloud-pv-vsphere/cloud-provider-vsphere:v1",
			Files:      map[string]string{"/bin/vsphere-cloud-controller-manager": "out/vsphere-cloud-controller-manager"},
			Entrypoint: []string{"/bin/vsphere-cloud-controller-manager"},
		},
		"sample": {
			Name:       "lab.local/sample-ccm:1",
			Files:      map[string]string{"/bin/ccm-sample": "out/ccm-sample"},
			Entrypoint: []string{"/bin/ccm-sample"},
		},
	}
	for _, older := range []string{"openstack-1.35", "openstack-1.34"} {
		want[older] = want["openstack"]
	}
	got := map[string]image.Spec{}
	for name, c := range ccms() {
		got[name] = c.spec("out", "v1")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestCCM_Modules: what ccms names is what the nested modules pin.
func TestCCM_Modules(t *testing.T) {
	b := builder{source: "."}
	for name, c := range ccms() {
		if _, err := b.required(c.folder, c.module); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		gomod, err := os.ReadFile(filepath.Join(c.folder, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(gomod), "\ntool "+c.program+"\n") {
			t.Errorf("%s: go.mod has no line for tool %s", name, c.program)
		}
	}
}
