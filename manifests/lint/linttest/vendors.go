// Package linttest has the manifests of vendors of cloud-controller-managers, for tests of what lint finds in them.
//
// Start at [Vendors]. They are those whose repositories are Go modules, as released: Go's checksum database keeps them
// what they are. All are under the Apache License 2.0.
//
// Reads: Go's module cache. Writes: that cache, through the go command, where it lacks a module. The second time it
// needs no network.
package linttest

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// Vendor is one release of a vendor's manifests.
type Vendor struct {
	// Name is that of the provider.
	Name string
	// Module is the Go module, as path@version.
	Module string
	// Dir is the folder in it.
	Dir string
	// Files are patterns of those that are applied together.
	Files []string
}

// Vendors lists them.
func Vendors() []Vendor {
	return []Vendor{
		{"aws", "k8s.io/cloud-provider-aws@v1.37.1", "examples/existing-cluster/base", []string{"*.yaml"}},
		{"azure", "sigs.k8s.io/cloud-provider-azure@v1.36.5", "examples/out-of-tree", []string{"cloud-*.yaml"}},
		{
			"openstack",
			"k8s.io/cloud-provider-openstack@v1.36.0",
			"manifests/controller-manager",
			[]string{"*-roles.yaml", "*-role-bindings.yaml", "*-ds.yaml"},
		},
		{"vsphere", "k8s.io/cloud-provider-vsphere@v1.36.0", "releases/v1.36", []string{"*.yaml"}},
		{
			"huawei",
			"sigs.k8s.io/cloud-provider-huaweicloud@v0.26.9",
			"manifests",
			[]string{"rbac-*.yaml", "*-deployment.yaml"},
		},
		{"kubevip", "github.com/kube-vip/kube-vip-cloud-provider@v0.0.12", "manifest", []string{"*.yaml"}},
	}
}

// Manifests returns the files by their names. The go command fetches the module, or finds it among those that it has.
func (v Vendor) Manifests(ctx context.Context) (map[string][]byte, error) {
	out, err := exec.CommandContext(ctx, "go", "mod", "download", "-json", v.Module).Output()
	if err != nil {
		return nil, fmt.Errorf("download %s: %w: %s", v.Module, err, out)
	}
	var found struct{ Dir string }
	if err := json.Unmarshal(out, &found); err != nil {
		return nil, fmt.Errorf("download %s: %w", v.Module, err)
	}
	base := os.DirFS(filepath.Join(found.Dir, v.Dir))
	files := map[string][]byte{}
	for _, pattern := range v.Files {
		names, err := fs.Glob(base, pattern)
		if err != nil {
			return nil, fmt.Errorf("list manifests of %s: %w", v.Module, err)
		}
		if len(names) == 0 {
			return nil, fmt.Errorf("list manifests of %s: no %s/%s", v.Module, v.Dir, pattern)
		}
		for _, name := range names {
			if files[name], err = fs.ReadFile(base, name); err != nil {
				return nil, fmt.Errorf("read manifest of %s: %w", v.Module, err)
			}
		}
	}
	return files, nil
}
