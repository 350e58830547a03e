//go:build linux

package main

import (
	"context"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/test/lab/image"
)

// kubevip is the nested module that pins the program which the control plane's own address is measured beside. It is
// under the Apache License 2.0; nothing that is released has any of it.
const kubevip, kubevipModule = "kubevip", "github.com/kube-vip/kube-vip"

func newKubeVIP(p *places) *cobra.Command {
	return newFolder(p, "kubevip", cobra.NoArgs,
		"Build kube-vip, and print the folder of its image archive kube-vip.tar, and its program, which writes manifests",
		func(ctx context.Context, b builder, _ []string) (string, error) { return b.kubevip(ctx) })
}

// kubevip returns a folder with the program, and the image under the name that its manifests have.
func (b builder) kubevip(ctx context.Context) (string, error) {
	version, err := b.required(kubevip, kubevipModule)
	if err != nil {
		return "", err
	}
	// Its manifests name the image by this version, as its Makefile sets it.
	folder, err := b.make(ctx, part{module: kubevip, packages: []string{"tool"}, ldflags: "-X main.Version=" + version})
	if err != nil {
		return "", err
	}
	program := filepath.Join(folder, "kube-vip")
	return b.cached(ctx, kubevip+"-image", []string{folder, version, imageFormat}, func(dir string) error {
		err := image.Write(filepath.Join(dir, "kube-vip.tar"), image.Spec{
			Name:  "ghcr.io/kube-vip/kube-vip:" + version,
			Files: map[string]string{"/kube-vip": program}, Entrypoint: []string{"/kube-vip"},
		})
		if err != nil {
			return err
		}
		return linkFile(program, filepath.Join(dir, "kube-vip"))
	})
}
