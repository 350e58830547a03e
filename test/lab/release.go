//go:build linux

package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/test/lab/image"
)

func newRelease(p *places) *cobra.Command {
	var mirror string
	cmd := &cobra.Command{
		Use:   "release MINOR",
		Short: "Print the folder with kubeadm, kubelet, kubectl and images of a minor, for an upgrade of machines that run",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := newBuilder(cmd.Context(), cmd.ErrOrStderr(), p)
			if err != nil {
				return err
			}
			dir, err := b.release(cmd.Context(), args[0], mirror)
			if err != nil {
				return fmt.Errorf("build release %s: %w", args[0], err)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), dir)
			return err
		},
	}
	cmd.Flags().StringVar(&mirror, "mirror", debianMirror, "Debian mirror")
	return cmd
}

// release returns a folder with the programs that an administrator replaces by hand, and an archive NAME.tar of each
// image that kubeadm of that minor wants.
func (b builder) release(ctx context.Context, minor, mirror string) (string, error) {
	debian, err := b.debian(ctx, mirror)
	if err != nil {
		return "", err
	}
	t, err := b.toolbox(ctx, minor)
	if err != nil {
		return "", err
	}
	inputs := append([]string{t.binaries, t.coredns, t.own, debian, imageFormat}, t.images...)
	return b.cached(ctx, "release-"+minor, inputs, func(dir string) error {
		for _, program := range []string{"kubeadm", "kubelet", "kubectl"} {
			if err := linkFile(filepath.Join(t.binaries, program), filepath.Join(dir, program)); err != nil {
				return err
			}
		}
		specs, err := t.imageSpecs(debian)
		if err != nil {
			return err
		}
		for n, spec := range specs {
			if err := image.Write(filepath.Join(dir, fmt.Sprintf("%d.tar", n)), spec); err != nil {
				return err
			}
		}
		return nil
	})
}
