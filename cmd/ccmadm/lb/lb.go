// Package lb is `ccmadm lb`: what Services of type LoadBalancer, AddressPools and the control plane's own address are, and why.
//
// Start at [NewCommand]. probe.go asks the network itself, why.go explains one Service, vip.go shows the control plane's address. Packages
// lbsuite, lbmove and externalips do what tests load balancers, moves an address and replaces externalIPs.
//
// Reads: Services, AddressPools, Nodes and what agents report; lb probe asks the network. Writes: nothing; packages lbsuite and lbmove do.
// Running it twice: asks again.
// It will not: need a cluster for lb probe, which goes without names of Nodes then.
package lb

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/completion"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/externalips"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/lbmove"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/lbsuite"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/observer"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/output"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/usage"
	"github.com/ccmadm/ccmadm/doctor/network"
	"github.com/ccmadm/ccmadm/doctor/table"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// NewCommand returns the command. The image is that of the pods of lb test.
func NewCommand(s workflow.Streams, image string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lb",
		Short: "Show and test load balancers: addresses, announcing Nodes, and problems",
		Long: `LoadBalancer Services of the provider onprem, and the control plane's own address. "ccmadm lb test" tests those of any
implementation, with Services of its own, and "ccmadm lb move" moves an address. The other commands change nothing.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newList(s), newWhy(s), newPools(s), newProbe(s), newVIP(s), newExternalIPs(s), newMove(s), newTest(s, image))
	return cmd
}

// newTest is the suite of package lbsuite, with the connection of all commands.
func newTest(s workflow.Streams, image string) *cobra.Command {
	var o observer.Cluster
	cmd := lbsuite.NewCommand(s, image, usage.ExitStatuses(usage.Endings{
		finding.ExitDone: "a check passed, and none failed",
		finding.ExitError: "the cluster does not answer, the pods do not start, a check could not be done,\n" +
			"  all were skipped, or something could not be removed",
		finding.ExitPreflight: "this user lacks permissions, which are named; nothing was made",
		finding.ExitNotInTime: "--timeout ended the run",
		finding.ExitRefused:   "the namespace exists and is not a test's, or a run is under way in it",
		finding.ExitFound:     "a check failed",
	}), o.Config)
	o.DeclareKubeconfig(cmd)
	test := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return observer.Asked(test(cmd, args)) }
	return cmd
}

// newMove is the move of package lbmove, with the connection of all commands.
func newMove(s workflow.Streams) *cobra.Command {
	var o observer.Cluster
	cmd := lbmove.NewCommand(s, usage.ExitStatuses(usage.Endings{
		finding.ExitDone:      "the addresses have moved, now or before; with --dry-run they can",
		finding.ExitError:     "the cluster does not answer, or refuses a change",
		finding.ExitPreflight: "a check failed, and nothing was changed",
		finding.ExitNotInTime: "the annotations are set, and the cloud-controller-manager has not moved the addresses in time",
	}), o.Config, completion.Pair(o.Connect))
	o.DeclareKubeconfig(cmd)
	move := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return observer.Asked(move(cmd, args)) }
	return cmd
}

func newList(s workflow.Streams) *cobra.Command {
	var o observer.Cluster
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List LoadBalancer Services, their addresses and the Nodes that announce them",
		Long: `Shows every LoadBalancer Service. READY is the condition ` + v1alpha1.LoadBalancerReady + `, or the state as
observed if the cloud-controller-manager has not set the condition.` + usage.ExitStatuses(usage.Endings{
			finding.ExitNotInTime: "a Service is not ready",
		}),
		Example: "  ccmadm lb list\n  ccmadm lb list -o wide",
		Args:    usage.NoArgs,
		RunE: o.Look(s, func(snapshot *network.Snapshot) error {
			list := snapshot.Balancers()
			err := o.Output.Write(s.Out, output.Lines(list), func() error {
				return printBalancers(s.Out, list, o.Output.Is(output.Wide), snapshot.Now)
			})
			if err != nil {
				return err
			}
			return notReady(list)
		}),
	}
	o.DeclareFormats(cmd, output.Text, output.Wide, output.JSON, output.YAML)
	return cmd
}

func printBalancers(out io.Writer, list []network.Balancer, wide bool, now time.Time) error {
	header := []string{"SERVICE", "ADDRESSES", "LEVEL", "ANNOUNCED-BY", "READY", "AGE"}
	if wide {
		header = append(header, "POOL", "MESSAGE")
	}
	w := table.New(out, header...)
	for _, b := range list {
		state := "yes"
		if !b.Ready {
			state = b.Reason
		}
		cells := []any{
			b.Service, strings.Join(b.Addresses, ","), b.Level, strings.Join(b.Announcers, ","), state,
			duration.HumanDuration(now.Sub(b.Since)),
		}
		if wide {
			cells = append(cells, b.Pool, b.Message)
		}
		w.Row(cells...)
	}
	return w.Flush()
}

// notReady is the exit status for Services that wait.
func notReady(list []network.Balancer) error {
	var names []string
	for _, b := range list {
		if !b.Ready {
			names = append(names, b.Service)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return &finding.Error{
		Code: finding.ExitNotInTime, Err: fmt.Errorf("not ready: %s", strings.Join(names, ", ")), Hint: "ccmadm lb why " + names[0],
	}
}

func newPools(s workflow.Streams) *cobra.Command {
	var o observer.Cluster
	cmd := &cobra.Command{
		Use:   "pools [POOL...]",
		Short: "List AddressPools, their usage and status",
		Long: `Shows every AddressPool, or the named ones, with its status.` + usage.ExitStatuses(usage.Endings{
			finding.ExitNotInTime: "an AddressPool that is not disabled is not Ready",
		}),
		Example: "  ccmadm lb pools\n  ccmadm lb pools lan -o yaml",
		RunE: func(cmd *cobra.Command, names []string) error {
			return o.Look(s, func(snapshot *network.Snapshot) error {
				if !snapshot.Defined {
					fmt.Fprintln(s.Err, "ccmadm: note: this cluster has no AddressPools: `ccmadm apply` on a control plane defines them, "+
						"for provider onprem")
				}
				pools, err := namedPools(snapshot.Pools, names)
				if err != nil {
					return err
				}
				if err := o.Output.Write(s.Out, output.Lines(pools), func() error { return printPools(s.Out, pools) }); err != nil {
					return err
				}
				return brokenPools(pools)
			})(cmd, names)
		},
	}
	o.DeclareFormats(cmd, output.Text, output.JSON, output.YAML)
	cmd.ValidArgsFunction = completion.Pools(o.Connect)
	return cmd
}

// namedPools are all without a name.
func namedPools(all []v1alpha1.AddressPool, names []string) ([]v1alpha1.AddressPool, error) {
	if len(names) == 0 {
		return all, nil
	}
	var list []v1alpha1.AddressPool
	for _, name := range names {
		i := slices.IndexFunc(all, func(p v1alpha1.AddressPool) bool { return p.Name == name })
		if i < 0 {
			return nil, finding.Errorf("find AddressPool/%s: there is none", name).WithHint("ccmadm lb pools shows them")
		}
		list = append(list, all[i])
	}
	return list, nil
}

func printPools(out io.Writer, pools []v1alpha1.AddressPool) error {
	w := table.New(out, "POOL", "RANGES", "LEVEL", "ASSIGNED", "KEPT", "AVAILABLE", "READY")
	for i := range pools {
		p := &pools[i]
		ready := "-" // nobody has looked at it
		if c := network.PoolReady(p); c != nil {
			ready = string(c.Status)
			if c.Status != "True" {
				ready = c.Reason + ": " + c.Message
			}
		}
		w.Row(p.Name, ranges(p), p.Spec.Level, p.Status.Assigned, p.Status.Quarantined, p.Status.Available, ready)
	}
	return w.Flush()
}

// ranges are those of a pool, and its host parts with the prefix that they have now.
func ranges(p *v1alpha1.AddressPool) string {
	list := slices.Clone(p.Spec.Ranges)
	if d := p.Spec.DynamicPrefix; d != nil {
		prefix := "?"
		if p.Status.DynamicPrefix != nil {
			prefix = p.Status.DynamicPrefix.Prefix
		}
		list = append(list, strings.Join(d.Hosts, ",")+" in "+prefix)
	}
	return strings.Join(list, ",")
}

func brokenPools(pools []v1alpha1.AddressPool) error {
	for i := range pools {
		if c := network.PoolReady(&pools[i]); c != nil && c.Status == "False" && !pools[i].Spec.Disabled {
			return &finding.Error{
				Code: finding.ExitNotInTime, Err: fmt.Errorf("AddressPool %s is not Ready: %s", pools[i].Name, finding.Clean(c.Message)),
				Hint: finding.PoolNotReady.Kind().Do,
			}
		}
	}
	return nil
}

func newExternalIPs(s workflow.Streams) *cobra.Command {
	var o observer.Cluster
	cmd := &cobra.Command{
		Use:   "external-ips",
		Short: "List Services with externalIPs, and print what moves them into an AddressPool",
		Long: `Shows every Service with spec.externalIPs, which kube-proxy ignores from Kubernetes ` + finding.ExternalIPs.Kind().Since + ` on: its
addresses, the AddressPool that contains them or would, and what else has them. Then it prints the AddressPools to create, and the kubectl commands that
make each Service a LoadBalancer with the same address, by annotation ` + v1alpha1.AddressesAnnotation + `. externalIPs are taken away
only after the load balancer is ready. ccmadm changes nothing.

ACTION is Move, Remove for externalIPs that have no effect, or Blocked with the reason: the address is a Node's or the control
plane's, belongs to another Service, or no AddressPool can give it. The provider's own rules are asked.` + usage.ExitStatuses(usage.Endings{
			finding.ExitDone:  "no Service has externalIPs",
			finding.ExitFound: "a Service has externalIPs",
		}),
		Example: "  ccmadm lb external-ips\n  ccmadm lb external-ips -o wide\n  ccmadm lb external-ips -o json | jq -r '.services[].commands[]?'",
		Args:    usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Output.Check(); err != nil {
				return err
			}
			cluster, err := readExternalIPs(cmd.Context(), &o, s)
			if err != nil {
				return err
			}
			kubectl := o.Kubectl()
			plan := cluster.Plan(kubectl...)
			err = o.Output.Write(s.Out, output.Line(plan), func() error { return plan.Show(s.Out, kubectl, o.Output.Is(output.Wide)) })
			if err != nil {
				return err
			}
			return leftExternalIPs(plan)
		},
	}
	o.DeclareFormats(cmd, output.Text, output.Wide, output.JSON, output.YAML)
	return cmd
}

// readExternalIPs looks at what a plan needs.
func readExternalIPs(ctx context.Context, o *observer.Cluster, s workflow.Streams) (*externalips.Cluster, error) {
	config, err := o.Config(s)
	if err != nil {
		return nil, err
	}
	server := config.Host
	if u, err := url.Parse(config.Host); err == nil && u.Host != "" {
		server = u.Hostname()
	}
	return observer.ReadNetwork(ctx, o, s, func(ctx context.Context, c client.Reader) (*externalips.Cluster, error) {
		return externalips.Read(ctx, c, server)
	})
}

// leftExternalIPs is the exit status while a Service has some.
func leftExternalIPs(plan *externalips.Plan) error {
	blocked, all := plan.Left()
	if len(all) == 0 {
		return nil
	}
	e := &finding.Error{
		Code: finding.ExitFound, Err: fmt.Errorf("%s with externalIPs: %s", finding.Count(len(all), "Service"), strings.Join(all, ", ")),
		Hint: "run the printed commands",
	}
	if len(blocked) > 0 {
		e.Hint = fmt.Sprintf("decide about what is %s: %s", externalips.Blocked, strings.Join(blocked, ", "))
	}
	return e
}
