package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/completion"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/observer"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/usage"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func newWait(s workflow.Streams) *cobra.Command {
	var o observer.Cluster
	var until string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait [NODE...]",
		Short: "Wait until all or the named nodes are initialized",
		Long: `Follows nodes through their states: ` + strings.Join(nodes.StateNames(), ", ") + `.
After the timeout it lists each node that has not reached the state, with its state, cause and remedy.` + usage.ExitStatuses(usage.Endings{
			finding.ExitNotInTime: "timeout, and a Node has not reached the state",
		}),
		Example: "  ccmadm wait\n  ccmadm wait w1 w2 --for Ready --timeout 10m",
		RunE: func(cmd *cobra.Command, names []string) error {
			if err := o.Output.Check(); err != nil {
				return err
			}
			state, err := nodes.ParseState(until)
			if err != nil {
				return finding.Usagef("read --for: %w", err)
			}
			client, err := o.Client(s)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return observer.Asked(workflow.Wait(ctx, client, nodes.WaitOptions{
				Nodes: names, Until: state, Lease: findLease(ctx, client, timeout),
			}, nodes.NewDisplay(o.Output.String(), s.Out)))
		},
	}
	o.DeclareFormats(cmd, nodes.Formats()...)
	cmd.ValidArgsFunction = completion.Nodes(o.Connect)
	cmd.Flags().StringVar(&until, "for", nodes.Addressed.String(), "the state to wait for")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "how long to wait")
	return cmd
}

// findLease leaves most of the time to waiting.
func findLease(ctx context.Context, client kubernetes.Interface, timeout time.Duration) string {
	ctx, cancel := context.WithTimeout(ctx, timeout/4)
	defer cancel()
	return workflow.FindLease(ctx, client)
}
