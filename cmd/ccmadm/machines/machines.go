// Package machines is `ccmadm machines`: the inventory of a site, and how it compares with the cluster.
//
// Start at [NewCommand]. list.go and diff.go show what package provider/nodes makes of an inventory.
//
// Reads: the inventory, Nodes, and the configuration of provider onprem in its Secret. Writes: nothing.
// Running it twice: the same text for the same cluster.
// It will not: change anything; the cloud-controller-manager does.
package machines

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/observer"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/usage"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/provider/inventory"
)

// NewCommand returns the command.
func NewCommand(s workflow.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "machines",
		Short: "Check an inventory of machines, and compare it with the cluster",
		Long:  "An inventory lists the machines of a site for the provider onprem. None of these commands changes anything.",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCheck(s), newList(s), newDiff(s), newExport(s))
	return cmd
}

func newCheck(s workflow.Streams) *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:     "check",
		Short:   "Validate an inventory without a cluster",
		Example: "  ccmadm machines check -f machines.yaml",
		Args:    usage.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			inv, _, err := readInventory(path)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(s.Out, "%s: ok, site %s, serial %d, %s\n", path, inv.Metadata.Site,
				inv.Metadata.Serial, finding.Count(len(inv.Machines), "machine"))
			return err
		},
	}
	requireInventory(cmd, &path)
	return cmd
}

func newExport(s workflow.Streams) *cobra.Command {
	var o observer.Cluster
	var site string
	cmd := &cobra.Command{
		Use:     "export",
		Short:   "Print an inventory of the running cluster, as a start for one of your own",
		Example: "  ccmadm machines export --site ber1 > machines.yaml",
		Args:    usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := o.Client(s)
			if err != nil {
				return err
			}
			nodes, err := readNodes(cmd.Context(), client)
			if err != nil {
				return err
			}
			data, err := yaml.Marshal(exportNodes(site, nodes))
			if err != nil {
				return fmt.Errorf("encode the inventory: %w", err)
			}
			_, err = s.Out.Write(data)
			return err
		},
	}
	o.DeclareKubeconfig(cmd)
	cmd.Flags().StringVar(&site, "site", "default", "the site; the first part of every provider ID")
	return cmd
}

func requireInventory(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVarP(path, "inventory", "f", "", "inventory file")
	_ = cmd.MarkFlagRequired("inventory") // fails only for a flag that was not declared
}

// readInventory returns an inventory, and the document that it came from.
func readInventory(path string) (*inventory.Inventory, []byte, error) {
	document, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, finding.Usagef("read inventory: %w", err)
	}
	inv, err := inventory.Decode(document)
	if err != nil {
		return nil, nil, finding.Usagef("%s: %w", path, err)
	}
	return inv, document, nil
}

// readNodes lists those of the cluster.
func readNodes(ctx context.Context, client kubernetes.Interface) ([]corev1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, observer.Timeout)
	defer cancel()
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, observer.Asked(fmt.Errorf("list nodes: %w", err))
	}
	return list.Items, nil
}

// exportNodes lists each Node as a machine with the identity that it has now.
func exportNodes(site string, nodes []corev1.Node) *config.Inventory {
	inv := &config.Inventory{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: config.InventoryKind},
		Metadata: config.InventoryMetadata{Site: site, Serial: 1},
	}
	for _, n := range nodes {
		m := config.Machine{ID: n.Name, Hostname: n.Name, State: config.MachineActive}
		if _, id, ours := inventory.Split(n.Spec.ProviderID); ours {
			m.ID = id
		}
		m.Match.SystemUUID = config.UUID(n.Status.NodeInfo.SystemUUID)
		m.Region, m.Zone = n.Labels[corev1.LabelTopologyRegion], n.Labels[corev1.LabelTopologyZone]
		m.InstanceType = n.Labels[corev1.LabelInstanceTypeStable]
		inv.Machines = append(inv.Machines, m)
	}
	return inv
}
