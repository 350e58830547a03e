package machines

import (
	"cmp"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/observer"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/output"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/usage"
	"github.com/ccmadm/ccmadm/doctor/table"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/provider/nodes"
)

func newList(s workflow.Streams) *cobra.Command {
	var o observer.Cluster
	var path string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List Nodes with their machines",
		Long: `Shows for each Node of the cluster its machine, the property that identified it, its entry in the inventory, and why it
stays as it is or is deleted. Machines without a Node follow. "machines diff" shows changes.` + usage.ExitStatuses(usage.Endings{
			finding.ExitFound: "a Node fits more than one machine",
		}),
		Example: "  ccmadm machines list -f machines.yaml",
		Args:    usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Output.Check(); err != nil {
				return err
			}
			_, document, err := readInventory(path)
			if err != nil {
				return err
			}
			client, err := o.Client(s)
			if err != nil {
				return err
			}
			all, err := readNodes(cmd.Context(), client)
			if err != nil {
				return err
			}
			plan, err := nodes.NewPlan(cmd.Context(), document, nodes.Snapshot{Nodes: all, Now: time.Now()})
			if err != nil {
				return finding.Usagef("%s: %w", path, err)
			}
			err = o.Output.Write(s.Out, output.Line(plan), func() error { return showMachines(s.Out, plan) })
			return cmp.Or(err, unclear(plan))
		},
	}
	o.DeclareFormats(cmd, output.Text, output.JSON, output.YAML)
	requireInventory(cmd, &path)
	return cmd
}

// showMachines prints one line per Node, and one per machine that no Node is.
func showMachines(out io.Writer, plan *nodes.Plan) error {
	w := table.New(out, "NODE", "MACHINE", "BY", "STATE", "NOTE")
	for _, n := range plan.Nodes {
		w.Row(n.Node, n.Machine, n.By, n.State, note(n))
	}
	for _, m := range plan.Spare {
		w.Row("", m.ID, "", m.State, "no Node")
	}
	return w.Flush()
}

// unclear is the exit status for Nodes that fit more than one machine.
func unclear(plan *nodes.Plan) error {
	var errs []error
	for _, n := range plan.Nodes {
		if n.Err != nil {
			errs = append(errs, n.Err)
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return &finding.Error{Code: finding.ExitFound, Err: errors.Join(errs...), Hint: "make the machines' match rules " +
		"distinct; ccmadm never guesses"}
}

// note is what there is to say of a Node beside what machine it is.
func note(n nodes.NodePlan) string {
	switch n.Action {
	case nodes.Stuck, nodes.Delete:
		return string(n.Action) + ": " + n.Message
	case nodes.Initialize:
		return "not initialized yet"
	}
	return n.Message
}
