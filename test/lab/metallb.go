//go:build linux

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/test/lab/image"
)

// metallb is the nested module that pins the load balancer which ours is measured beside.
const metallb, metallbModule = "metallb", "go.universe.tf/metallb"

func newMetalLB(p *places) *cobra.Command {
	return newFolder(p, "metallb", cobra.NoArgs,
		"Build MetalLB, and print the folder of its image archives controller.tar and speaker.tar, and its manifest native.yaml",
		func(ctx context.Context, b builder, _ []string) (string, error) { return b.metallb(ctx) })
}

// newFolder is a command that makes a folder, if the cache has none, and prints its path.
func newFolder(
	p *places, use string, args cobra.PositionalArgs, short string,
	folder func(context.Context, builder, []string) (string, error),
) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		Args:  args,
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := newBuilder(cmd.Context(), cmd.ErrOrStderr(), p)
			if err != nil {
				return err
			}
			dir, err := folder(cmd.Context(), b, args)
			if err != nil {
				return fmt.Errorf("make %s: %w", cmd.Name(), err)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), dir)
			return err
		},
	}
}

// metallb returns a folder with the images under the names that the manifest has, and the manifest as its authors
// publish it for the mode that needs no FRR.
func (b builder) metallb(ctx context.Context) (string, error) {
	version, err := b.required(metallb, metallbModule)
	if err != nil {
		return "", err
	}
	programs := []string{"controller", "speaker"}
	p := part{module: metallb}
	for _, name := range programs {
		p.packages = append(p.packages, metallbModule+"/"+name)
	}
	folder, err := b.make(ctx, p)
	if err != nil {
		return "", err
	}
	return b.cached(ctx, metallb+"-images", []string{folder, version, imageFormat}, func(dir string) error {
		for _, name := range programs {
			err := image.Write(filepath.Join(dir, name+".tar"), image.Spec{
				Name:  "quay.io/metallb/" + name + ":" + version,
				Files: map[string]string{"/" + name: filepath.Join(folder, name)}, Entrypoint: []string{"/" + name},
			})
			if err != nil {
				return err
			}
		}
		return b.metallbManifest(ctx, dir)
	})
}

func (b builder) metallbManifest(ctx context.Context, dir string) error {
	source, err := b.moduleFolder(ctx, filepath.Join(b.source, metallb), metallbModule)
	if err != nil {
		return err
	}
	return copyFile(filepath.Join(source, "config/manifests/metallb-native.yaml"), filepath.Join(dir, "native.yaml"))
}

// moduleFolder is where Go has the files of a module that the module in dir requires.
func (b builder) moduleFolder(ctx context.Context, dir, module string) (string, error) {
	out, err := b.goCommand(ctx, dir, "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("go list -m %s: %w", module, err)
	}
	return strings.TrimSpace(string(out)), nil
}
