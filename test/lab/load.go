//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/ccmadm/ccmadm/test/lab/image"
)

func newLoad(p *places) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "load ARCHIVE...",
		Short: "Load image archives on every machine that runs",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, archives []string) error {
			l, err := existingLab(p, name)
			if err != nil {
				return err
			}
			machines, err := l.running()
			if err != nil {
				return err
			}
			group, ctx := errgroup.WithContext(cmd.Context())
			for _, m := range machines {
				group.Go(func() error { return m.equip(ctx, upFlags{images: archives}) })
			}
			return group.Wait()
		},
	}
	addName(cmd, &name)
	return cmd
}

func (m machine) loadImage(ctx context.Context, archive string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	cmd := m.command(ctx, "ctr", "--namespace=k8s.io", "images", "import", "-")
	cmd.Stdin = f
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("load %s on %s: %w: %s", archive, m.name, err, strings.TrimSpace(string(out)))
	}
	return nil
}

func newImage() *cobra.Command {
	var spec image.Spec
	var binary, output string
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Pack one static program into an image archive; same program, same bytes",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			base := "/" + binary[strings.LastIndexByte(binary, '/')+1:]
			spec.Files = map[string]string{base: binary}
			spec.Entrypoint = []string{base}
			return image.Write(output, spec)
		},
	}
	cmd.Flags().StringVar(&spec.Name, "name", "", "reference with tag")
	cmd.Flags().StringVar(&binary, "binary", "", "the program")
	cmd.Flags().StringVar(&spec.User, "user", "", "numeric user that runs it (default root)")
	cmd.Flags().StringVar(&output, "output", "", "archive to write")
	for _, required := range []string{"name", "binary", "output"} {
		// It fails only for a flag that does not exist.
		if err := cmd.MarkFlagRequired(required); err != nil {
			panic(err)
		}
	}
	return cmd
}
