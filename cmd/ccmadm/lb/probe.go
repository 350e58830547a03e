package lb

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/observer"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/output"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/usage"
	"github.com/ccmadm/ccmadm/doctor/table"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func newProbe(s workflow.Streams) *cobra.Command {
	var o observer.Cluster
	var name string
	cmd := &cobra.Command{
		Use:   "probe ADDRESS",
		Short: "Probe by ARP or NDP which machine answers for an address",
		Long: `Sends ARP, or NDP for IPv6, from this machine, and shows every hardware address that answers within a second, also for
the control plane's own address. It needs root, and a machine in the network of the address other than its owner. It needs no
cluster. NODE is the Node whose agent reports the hardware address, or the control plane that answers from it, if there is a
kubeconfig and the cluster answers within seconds.` + usage.ExitStatuses(usage.Endings{
			finding.ExitDone:      "one machine answers",
			finding.ExitNotInTime: "no machine answers",
			finding.ExitFound:     "several machines answer, and packets reach any of them",
		}),
		Example: "  ccmadm lb probe 192.0.2.50",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return finding.Usagef("%s: want one address, got %s", cmd.CommandPath(), finding.Count(len(args), "argument"))
			}
			if err := o.Output.Check(); err != nil {
				return err
			}
			addr, err := netip.ParseAddr(args[0])
			if err != nil || addr.Zone() != "" {
				return finding.Usagef("read the address: %q is none", args[0])
			}
			ifi, err := machine.FindInterface(name, addr)
			if err != nil {
				return finding.Usagef("%w", err).WithHint("--interface names one")
			}
			found, err := machine.AskNeighbours(cmd.Context(), ifi, addr)
			if errors.Is(err, fs.ErrPermission) {
				return finding.Errorf("%w", err).WithHint("run the same command with sudo")
			}
			if err != nil {
				return usage.Observed(err)
			}
			if err := printAnswers(s, &o.Output, ifi.Name, answers(cmd.Context(), &o, s, ifi, found)); err != nil {
				return err
			}
			here, err := interfaceWith(addr)
			if err != nil {
				return err
			}
			return judgeNeighbours(addr, found, here)
		},
	}
	o.DeclareFormats(cmd, output.Text, output.JSON, output.YAML)
	cmd.Flags().StringVar(&name, "interface", "", "network interface to ask on (default: the one with a subnet that holds the address)")
	return cmd
}

func printAnswers(s workflow.Streams, format *output.Format, ifi string, found []answer) error {
	return format.Write(s.Out, output.Lines(found), func() error {
		w := table.New(s.Out, "MAC", "INTERFACE", "AFTER", "NODE")
		for _, n := range found {
			w.Row(n.MAC, ifi, n.After.Round(10*time.Microsecond), strings.Join(n.Nodes, ", "))
		}
		return w.Flush()
	})
}

// judgeNeighbours judges by who answers; here is the interface of this machine that has the address, if there is one.
func judgeNeighbours(addr netip.Addr, found []machine.Neighbour, here string) error {
	switch len(found) {
	case 0:
		if here != "" {
			const text = "no other machine answers for %s, and this one has it on %s: it answers, or no machine does"
			return &finding.Error{
				Code: finding.ExitNotInTime, Err: fmt.Errorf(text, addr, here), Hint: "run the same command on another machine of the network",
			}
		}
		return &finding.Error{Code: finding.ExitNotInTime, Err: fmt.Errorf("no machine answers for %s within %s", addr, machine.NeighbourPatience)}
	case 1:
		return nil
	default:
		return &finding.Error{
			Code: finding.ExitFound, Err: fmt.Errorf("%d machines answer for %s", len(found), addr), Hint: finding.AddressConflict.Kind().Do,
		}
	}
}
