package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/output"
	"github.com/ccmadm/ccmadm/doctor/network"
	"github.com/ccmadm/ccmadm/doctor/table"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func newLBVIP(s workflow.Streams) *cobra.Command {
	var o observer
	cmd := &cobra.Command{
		Use:   "vip",
		Short: "Show which machine has the control plane's address (VIP), and why",
		Long: `Shows the control planes of a cluster with controlPlaneVIP: which one has the address, which ones vote on it, the state of
the static pod, and the reason why each one has the address or not. The node agents of the control planes report it. They
report each change; a machine without an agent reports nothing. ` + "`ccmadm lb probe ADDRESS`" + ` asks
the network instead.` + exitStatuses(
			ending{finding.ExitError, "the cluster has no such address, or does not answer"},
			ending{finding.ExitNotInTime, "no control plane has the address, or no agent reports"}),
		Example: "  ccmadm lb vip",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.output.Check(); err != nil {
				return err
			}
			v, err := o.vip(cmd.Context(), s)
			if err != nil {
				return err
			}
			if v == nil {
				return finding.Errorf("find the control plane VIP: no static pod of this cluster has one").
					WithHint("a VIP is set when a cluster is created, with `ccmadm init --control-plane-vip ADDRESS`; " +
						"`kubectl cluster-info` shows the address in use")
			}
			err = o.output.Write(s.Out, output.Line(v), func() error { return printVIP(s.Out, v) })
			if err != nil || len(v.Owners) > 0 {
				return err
			}
			return &finding.Error{
				Code: finding.ExitNotInTime, Err: fmt.Errorf("%s", v.Summary()), Hint: "ccmadm lb probe " + v.Address + " asks the network",
			}
		},
	}
	o.declareFormats(cmd, output.Text, output.JSON, output.YAML)
	return cmd
}

// vip looks at who has the control plane's own address; nil: there is none.
func (o *observer) vip(ctx context.Context, s workflow.Streams) (*network.VIP, error) {
	return readNetwork(ctx, o, s, network.ReadVIP)
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

// showVIP has a line for the control plane's own address, where there is one.
func (o *observer) showVIP(ctx context.Context, s workflow.Streams) {
	v, err := o.vip(ctx, s)
	if err != nil {
		line, _, _ := strings.Cut(err.Error(), "\n")
		fmt.Fprintf(s.Err, "ccmadm: warning: the owner of the control plane's address is unknown: %s\n", line)
		return
	}
	if v != nil {
		fmt.Fprintln(s.Out, v.Summary()+": ccmadm lb vip")
	}
}
