package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/output"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/templates"
)

func newImages(s workflow.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "images",
		Short: "List the images of a provider, for air-gapped clusters",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newImagesList(s))
	return cmd
}

func newImagesList(s workflow.Streams) *cobra.Command {
	var r renderer
	var format output.Format
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the images of a provider and of ccmadm, one per line",
		Long: `The last image is ccmadm's own: pods of adopt, leave, upgrade and rollback with --via pods, and of rehearse, run it.
If a mirror has it under another name, pass --node-image to these commands. For the images of Kubernetes itself run
"kubeadm config images list".`,
		Example: "  ccmadm images list --provider aws --kubernetes-version v1.36.3\n  ccmadm images list --provider onprem -o json",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := format.Check(); err != nil {
				return err
			}
			p, err := r.profile()
			if err != nil {
				return err
			}
			images, err := p.Images(r.values(p, nil))
			if err != nil {
				return finding.Usagef("%w", err)
			}
			own, err := p.ContainerImage(templates.Image{Repository: ownRepository, Tag: version},
				templates.Values{ImageRepository: r.mirror})
			if err != nil {
				return finding.Usagef("%w", err)
			}
			images = append(images, own)
			list := map[string][]string{"images": images} // as "kubeadm config images list" has it
			return format.Write(s.Out, output.Object(list), func() error {
				_, err := fmt.Fprintln(s.Out, strings.Join(images, "\n"))
				return err
			})
		},
	}
	r.declare(cmd)
	format.Declare(cmd, output.Text, output.JSON, output.YAML)
	return cmd
}
