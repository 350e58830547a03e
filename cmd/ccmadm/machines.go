package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/phases"
	"github.com/ccmadm/ccmadm/provider/inventory"
)

func newMachines(s phases.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "machines",
		Short: "Check an inventory of machines, and compare it with a cluster",
		Long:  "An inventory lists the machines of a site for the provider onprem. None of these commands changes anything.",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newMachinesCheck(s), newMachinesList(s), newMachinesExport(s))
	return cmd
}

func newMachinesCheck(s phases.Streams) *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Validate an inventory without a cluster; all errors at once",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			inv, err := readInventory(path)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(s.Out, "%s: ok, site %s, serial %d, %d machines\n", path, inv.Metadata.Site, inv.Metadata.Serial, len(inv.Machines))
			return err
		},
	}
	requireInventory(cmd, &path)
	return cmd
}

func newMachinesList(s phases.Streams) *cobra.Command {
	var o observer
	var path string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show which Node is which machine and why, and which Nodes could be deleted",
		Long: `For each Node of the cluster: the machine that it is, what it was recognised by, and what the inventory says. "may be
deleted" is said of Nodes whose machine is decommissioned; the guard of the cloud-controller-manager still keeps
each whose kubelet talks. Machines that no Node is follow. Exit status 1 if a Node fits more than one machine.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			inv, err := readInventory(path)
			if err != nil {
				return err
			}
			client, err := o.client(s)
			if err != nil {
				return err
			}
			nodes, err := listNodes(cmd.Context(), client)
			if err != nil {
				return err
			}
			return showMachines(s.Out, inv, nodes)
		},
	}
	o.declareKubeconfig(cmd)
	requireInventory(cmd, &path)
	return cmd
}

func newMachinesExport(s phases.Streams) *cobra.Command {
	var o observer
	var site string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print an inventory of the running cluster, as a start for one of your own",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := o.client(s)
			if err != nil {
				return err
			}
			nodes, err := listNodes(cmd.Context(), client)
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
	o.declareKubeconfig(cmd)
	cmd.Flags().StringVar(&site, "site", "default", "the site; the first part of every provider ID")
	return cmd
}

func requireInventory(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "inventory", "", "inventory file")
	_ = cmd.MarkFlagRequired("inventory") // fails only for a flag that was not declared
}

func readInventory(path string) (*inventory.Inventory, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, usage("read inventory: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	inv, err := inventory.Read(f)
	if err != nil {
		return nil, usage("%s: %w", path, err)
	}
	return inv, nil
}

func listNodes(ctx context.Context, client kubernetes.Interface) ([]corev1.Node, error) {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, &phases.Error{Code: phases.ExitError, Err: fmt.Errorf("list nodes: %w", err)}
	}
	return list.Items, nil
}

// showMachines prints one line per Node, and one per machine that no Node is.
func showMachines(out io.Writer, inv *inventory.Inventory, nodes []corev1.Node) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NODE\tMACHINE\tBY\tSTATE\tNOTE")
	seen := map[string]string{}
	var unclear []error
	for i := range nodes {
		m, rule, err := inv.Match(inventory.FactsOf(&nodes[i]))
		switch {
		case err != nil:
			unclear = append(unclear, err)
			fmt.Fprintf(w, "%s\t-\t%s\t-\t%v\n", nodes[i].Name, rule, err)
		case m == nil:
			fmt.Fprintf(w, "%s\t-\t-\t-\t%s\n", nodes[i].Name, unlisted(inv.Policy, nodes[i].Spec.ProviderID))
		default:
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", nodes[i].Name, m.ID, rule, m.State, fate(inv.Policy, m, seen[m.ID]))
			seen[m.ID] = nodes[i].Name
		}
	}
	for i := range inv.Machines {
		if m := &inv.Machines[i]; seen[m.ID] == "" {
			fmt.Fprintf(w, "-\t%s\t-\t%s\tno Node\n", m.ID, m.State)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(unclear) > 0 {
		return &phases.Error{Code: phases.ExitError, Err: errors.Join(unclear...), Hint: "make the machines' match rules distinct; nothing is ever guessed"}
	}
	return nil
}

func unlisted(p inventory.Policy, providerID string) string {
	_, _, ours := inventory.Split(providerID)
	switch {
	case providerID != "" && !ours:
		return "another provider's: never touched"
	case p.UnknownNodes == inventory.Hold:
		return "not listed: stays tainted"
	case p.Deletion == inventory.Absence:
		return "not listed: adopted; may be deleted if it was listed before"
	}
	return "not listed: adopted"
}

// fate is what the inventory alone says of a Node; other is a Node that is the same machine.
func fate(p inventory.Policy, m *inventory.Machine, other string) string {
	switch {
	case other != "":
		return "the same machine as Node/" + other
	case m.State != inventory.Decommissioned || p.Deletion == inventory.Never:
		return ""
	case m.Protected:
		return "protected"
	}
	return "may be deleted"
}

// exportNodes lists each Node as a machine with the identity that it has now.
func exportNodes(site string, nodes []corev1.Node) *inventory.Inventory {
	inv := &inventory.Inventory{
		TypeMeta: metav1.TypeMeta{APIVersion: inventory.APIVersion, Kind: inventory.Kind},
		Metadata: inventory.Metadata{Site: site, Serial: 1},
	}
	for _, n := range nodes {
		m := inventory.Machine{ID: n.Name, Hostname: n.Name, State: inventory.Active}
		if _, id, ours := inventory.Split(n.Spec.ProviderID); ours {
			m.ID = id
		}
		m.Match.SystemUUID = inventory.UUID(n.Status.NodeInfo.SystemUUID)
		m.Region, m.Zone = n.Labels[corev1.LabelTopologyRegion], n.Labels[corev1.LabelTopologyZone]
		m.InstanceType = n.Labels[corev1.LabelInstanceTypeStable]
		inv.Machines = append(inv.Machines, m)
	}
	return inv
}
