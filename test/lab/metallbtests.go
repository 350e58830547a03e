//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/api/minors"
	"github.com/ccmadm/ccmadm/test/lab/image"
)

const (
	// metallbTests is the nested module that pins the last version of MetalLB whose module has its end-to-end tests.
	metallbTests = "metallb-tests"
	// metallbServerName is the image that these tests ask for.
	metallbServerName = "registry.k8s.io/e2e-test-images/agnhost:2.43"
)

// metallbServer is the module that has agnhost.
func metallbServer() string { return "upstream-" + minors.Newest() }

func newMetalLBTests(p *places) *cobra.Command {
	return newFolder(p, metallbTests, cobra.NoArgs,
		"Build MetalLB's own tests, and print the folder: metallb.test, agnhost.tar, which is their server, and MetalLB's CRDs in crds",
		func(ctx context.Context, b builder, _ []string) (string, error) { return b.metallbTests(ctx) })
}

// metallbTests compiles the tests as their module has them.
func (b builder) metallbTests(ctx context.Context) (string, error) {
	inputs, err := b.inputs(part{module: metallbTests, recipe: imageFormat + metallbServerName})
	if err != nil {
		return "", err
	}
	server, err := b.inputs(part{module: metallbServer()})
	if err != nil {
		return "", err
	}
	return b.cached(ctx, metallbTests, append(inputs, server...), func(dir string) error {
		module := filepath.Join(b.source, metallbTests)
		compile := b.goCommand(ctx, module, slices.Concat([]string{"test", "-vet=off", "-c"}, compileFlags(""),
			[]string{"-o", filepath.Join(dir, "metallb.test"), metallbModule + "/e2etest"})...)
		if out, err := compile.CombinedOutput(); err != nil {
			return fmt.Errorf("compile e2etest: %w: %s", err, lastLines(string(out), 10))
		}
		if err := b.metallbCRDs(ctx, module, filepath.Join(dir, "crds")); err != nil {
			return err
		}
		if err := b.goBuild(ctx, filepath.Join(b.source, metallbServer()), dir, "", "k8s.io/kubernetes/test/images/agnhost"); err != nil {
			return err
		}
		return image.Write(filepath.Join(dir, "agnhost.tar"), image.Spec{
			Name: metallbServerName, Files: map[string]string{"/agnhost": filepath.Join(dir, "agnhost")},
			Entrypoint: []string{"/agnhost"}, Command: []string{"pause"},
		})
	})
}

func (b builder) metallbCRDs(ctx context.Context, module, dir string) error {
	source, err := b.moduleFolder(ctx, module, metallbModule)
	if err != nil {
		return err
	}
	return os.CopyFS(dir, os.DirFS(filepath.Join(source, "config/crd/bases")))
}
