package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/observer"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/output"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/usage"
	"github.com/ccmadm/ccmadm/doctor/network"
	"github.com/ccmadm/ccmadm/doctor/table"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func newRoutes(s workflow.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "routes",
		Short: "Show the pod routes that node agents set, and missing ones",
		Long:  `Routes of the provider onprem, as the agents report them. None of these commands changes anything.`,
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newRoutesList(s), newRoutesCheck(s))
	return cmd
}

func newRoutesList(s workflow.Streams) *cobra.Command {
	var o observer.Cluster
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List every route that an agent reports",
		Example: "  ccmadm routes list",
		Args:    usage.NoArgs,
		RunE: o.Look(s, func(snapshot *network.Snapshot) error {
			list := snapshot.Routes()
			return o.Output.Write(s.Out, output.Lines(list), func() error {
				w := table.New(s.Out, "NODE", "DESTINATION", "VIA", "PODS-OF", "NOTE")
				for _, r := range list {
					note := ""
					if !r.Live {
						note = "its agent does not report"
					}
					w.Row(r.Node, r.Destination, r.Via, r.To, note)
				}
				return w.Flush()
			})
		}),
	}
	o.DeclareFormats(cmd, output.Text, output.JSON, output.YAML)
	return cmd
}

func newRoutesCheck(s workflow.Streams) *cobra.Command {
	var o observer.Cluster
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Find missing pod routes",
		Long: `Compares the routes that agents report with the routes that each Node needs: one to the pod CIDRs of every other Node.
If agents set routes, a Node with a pod CIDR needs them even if its agent has never started.` + usage.ExitStatuses(usage.Endings{
			finding.ExitNotInTime: "a route is missing, or an agent has not reported for a minute or never did",
		}),
		Example: "  ccmadm routes check",
		Args:    usage.NoArgs,
		RunE: o.Look(s, func(snapshot *network.Snapshot) error {
			wanted, found, problems := snapshot.CheckRoutes()
			err := o.Output.Write(s.Out, output.Findings(problems), func() error {
				if err := finding.WriteText(s.Out, problems); err != nil {
					return err
				}
				_, err := fmt.Fprintf(s.Out, "%d of %s, %s\n", found, finding.Count(wanted, "route"), finding.Count(len(snapshot.Agents), "agent"))
				return err
			})
			if err != nil || len(problems) == 0 {
				return err
			}
			failed := fmt.Errorf("%d of %s missing", wanted-found, finding.Count(wanted, "route"))
			if found == wanted { // an agent does not report
				failed = fmt.Errorf("no route is missing, and there is %s", finding.Count(len(problems), "problem"))
			}
			return &finding.Error{Code: finding.ExitNotInTime, Err: failed}
		}),
	}
	o.DeclareFormats(cmd, output.Text, output.JSON, output.YAML)
	return cmd
}
