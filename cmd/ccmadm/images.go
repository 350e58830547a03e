package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/phases"
)

func newImages(s phases.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "images",
		Short: "List the images of a provider, for air-gapped clusters",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newImagesList(s))
	return cmd
}

func newImagesList(s phases.Streams) *cobra.Command {
	var r renderer
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the images that a provider runs, one a line",
		Long:  "Those of Kubernetes itself: kubeadm config images list.",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			p, err := r.profile()
			if err != nil {
				return err
			}
			images, err := p.Images(r.values(p, nil))
			if err != nil {
				return usage("%w", err)
			}
			for _, image := range images {
				if _, err := fmt.Fprintln(s.Out, image); err != nil {
					return err
				}
			}
			return nil
		},
	}
	r.declare(cmd)
	return cmd
}
