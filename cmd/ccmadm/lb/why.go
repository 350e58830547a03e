package lb

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/completion"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/observer"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/output"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/usage"
	"github.com/ccmadm/ccmadm/doctor/network"
	"github.com/ccmadm/ccmadm/doctor/table"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func newWhy(s workflow.Streams) *cobra.Command {
	var o observer.Cluster
	cmd := &cobra.Command{
		Use:   "why [NAMESPACE/]SERVICE",
		Short: "Explain the address of a Service, Node by Node",
		Long: `Shows the addresses of a Service, the Nodes that announce them, and for each Node whether it is eligible. WHY is the rule
that excludes a Node, or the reason why it announces the address or not; -o wide lists every rule. Findings follow, with what
keeps the Service from being ready.

Neither a cordon nor ` + "`kubectl drain`" + ` moves an address:
` + "`kubectl label node NODE " + v1alpha1.DrainLabel + "=true`" + ` does.` + usage.ExitStatuses(usage.Endings{
			finding.ExitError:     "the Service does not exist, or the cluster does not answer",
			finding.ExitNotInTime: "the Service is not ready",
		}),
		Example: "  ccmadm lb why shop/web",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return finding.Usagef("%s: want one Service, got %s", cmd.CommandPath(), finding.Count(len(args), "argument")).
					WithHint("%s shop/web; ccmadm lb list shows them", cmd.CommandPath())
			}
			if err := o.Output.Check(); err != nil {
				return err
			}
			name := args[0]
			if !strings.Contains(name, "/") {
				name = "default/" + name
			}
			snapshot, err := o.Network(cmd.Context(), s)
			if err != nil {
				return err
			}
			why := snapshot.Why(name)
			if why == nil {
				return finding.Errorf("find Service/%s: there is none of type LoadBalancer", name).WithHint("ccmadm lb list shows them")
			}
			err = o.Output.Write(s.Out, output.Line(why), func() error { return printWhy(s.Out, why, o.Output.Is(output.Wide)) })
			if err != nil || why.Ready {
				return err
			}
			return &finding.Error{Code: finding.ExitNotInTime, Err: fmt.Errorf("look at Service/%s: it is not ready: %s", name, table.OrDash(why.Reason))}
		},
	}
	o.DeclareFormats(cmd, output.Text, output.Wide, output.JSON, output.YAML)
	cmd.ValidArgsFunction = completion.Services(o.Connect)
	return cmd
}

func printWhy(out io.Writer, w *network.Why, wide bool) error {
	state := "ready"
	if !w.Ready {
		state = "not ready, " + w.Reason
	}
	fmt.Fprintf(out, "Service/%s: %s\n", w.Service, strings.TrimSuffix(state+": "+w.Message, ": "))
	for _, c := range w.Claims {
		fmt.Fprintf(out, "  %s of pool %s, level %s%s%s\n", c.Address, table.OrDash(c.Pool), table.OrDash(string(c.Level)), shared(c), probed(c))
	}
	if len(w.Claims) == 0 && len(w.Addresses) > 0 {
		fmt.Fprintf(out, "  %s, the addresses of Nodes: no pool, no agent\n", strings.Join(w.Addresses, ", "))
	}
	fmt.Fprintln(out)
	if err := printVerdicts(out, w.Nodes, wide); err != nil {
		return err
	}
	for _, f := range w.Findings {
		fmt.Fprintf(out, "\n%s %s: %s: %s\n    do: %s\n", f.ID, f.Reason, f.Object, f.Message, f.Do)
		if f.Next != "" {
			fmt.Fprintf(out, "    next: %s\n", f.Next)
		}
	}
	return nil
}

func shared(c network.Claim) string {
	if len(c.Sharers) == 0 {
		return ""
	}
	return fmt.Sprintf(", of %s, shared with %s", c.Owner, strings.Join(c.Sharers, ", "))
}

func probed(c network.Claim) string {
	if c.Probed == "" {
		return ", not yet probed for another user on the network"
	}
	return ""
}

// printVerdicts shows the first rule that is not met, or every rule.
func printVerdicts(out io.Writer, list []network.Verdict, wide bool) error {
	w := table.New(out, "NODE", "MAY", "ANNOUNCES", "WHY")
	for _, v := range list {
		w.Row(v.Node, table.YesNo(v.Eligible), strings.Join(v.Announces, ", "), cmp.Or(v.Against(), v.Because))
		if !wide {
			continue
		}
		for _, r := range v.Rules {
			met := "no"
			if r.Met {
				met = "ok"
			}
			w.Row("  "+r.Name, met, " ", r.Note)
		}
	}
	return w.Flush()
}
