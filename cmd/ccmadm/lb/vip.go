package lb

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/observer"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/output"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/usage"
	"github.com/ccmadm/ccmadm/doctor/network"
	"github.com/ccmadm/ccmadm/doctor/table"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func newVIP(s workflow.Streams) *cobra.Command {
	var o observer.Cluster
	cmd := &cobra.Command{
		Use:   "vip",
		Short: "Show which machine has the control plane's address (VIP), and why",
		Long: `Shows the control planes of a cluster with controlPlaneVIP: which one has the address, which ones vote on it, the state of
the static pod, and the reason why each one has the address or not. The node agents of the control planes report it. They
report each change; a machine without an agent reports nothing. ` + "`ccmadm lb probe ADDRESS`" + ` asks
the network instead.` + usage.ExitStatuses(usage.Endings{
			finding.ExitError:     "the cluster has no such address, or does not answer",
			finding.ExitNotInTime: "no control plane has the address, or no agent reports",
		}),
		Example: "  ccmadm lb vip",
		Args:    usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Output.Check(); err != nil {
				return err
			}
			v, err := observer.ReadNetwork(cmd.Context(), &o, s, network.ReadVIP) // nil: there is none
			if err != nil {
				return err
			}
			if v == nil {
				return finding.Errorf("find the control plane VIP: no static pod of this cluster has one").
					WithHint("a VIP is set when a cluster is created, with `ccmadm init --control-plane-vip ADDRESS`; " +
						"`kubectl cluster-info` shows the address in use")
			}
			err = o.Output.Write(s.Out, output.Line(v), func() error { return printVIP(s.Out, v) })
			if err != nil || len(v.Owners) > 0 {
				return err
			}
			return &finding.Error{
				Code: finding.ExitNotInTime, Err: fmt.Errorf("%s", v.Summary()), Hint: "ccmadm lb probe " + v.Address + " asks the network",
			}
		},
	}
	o.DeclareFormats(cmd, output.Text, output.JSON, output.YAML)
	return cmd
}

func printVIP(out io.Writer, v *network.VIP) error {
	fmt.Fprintln(out, v.Summary())
	fmt.Fprintln(out)
	w := table.New(out, "CONTROL-PLANE", "HAS-IT", "VOTE", "POD", "WHY")
	for _, m := range v.Members {
		vote := table.YesNo(m.Votes)
		if len(v.Votes) == 0 {
			vote = "-"
		}
		has := table.YesNo(m.Has)
		if !m.Reported && !m.Has {
			has = "-"
		}
		w.Row(m.Node, has, vote, m.Pod, m.Because)
	}
	return w.Flush()
}
