// Package lbsuite is `ccmadm lb test`: the flags of the suite of package doctor/lbtest, its output, and the programs of its pods.
//
// Start at [NewCommand]; [NewServer] and [NewClient] are what runs in the pods.
//
// Reads: flags. Writes: the report to the standard output, and progress to the standard error. What is made in the cluster is made by
// package doctor/lbtest.
package lbsuite

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/output"
	"github.com/ccmadm/ccmadm/doctor/lbtest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// formatJUnit is the XML that build servers read.
const formatJUnit = "junit"

// suite is the command's flags.
type suite struct {
	options     lbtest.Options
	annotations []string
	quiet       bool
	output      output.Format
}

// NewCommand returns the command. Image is that of the pods, connect finds the cluster, and exits is the end of the help.
func NewCommand(s workflow.Streams, image, exits string, connect func(workflow.Streams) (*rest.Config, error)) *cobra.Command {
	var st suite
	cmd := &cobra.Command{
		Use:   "test",
		Short: "Test load balancers end to end, of any implementation",
		Long: `Makes a namespace with server pods, client pods and LoadBalancer Services, sends requests to their addresses from this
machine and from a pod on each Node, and removes all of it, also after Ctrl-C and after a failed check. Only Services are needed:
ccmadm at level L2, BGP or NodeIP, MetalLB, Cilium, or the load balancers of a cloud.

Checks:

` + list() + `
A check is "skip" where the cluster cannot have what it asks for, and "error" where it could not be done. Requests to the
API server are repeated for three minutes. LOST counts requests without an answer after the same client had an answer.

Run it on a machine that is no Node, and that reaches the addresses: a Node's own packets pass no load balancer. What a killed run
or one with --keep has left in the namespace, the next run removes.` + exits,
		Example: `  ccmadm lb test
  ccmadm lb test --run tcp,tcp-local -o json
  ccmadm lb test --annotation ccmadm.dev/level=NodeIP
  ccmadm lb test --disrupt -o junit > load-balancers.xml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return finding.Usagef("%s: want no arguments, got %q", cmd.CommandPath(), args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return st.run(cmd, s, connect) },
	}
	st.declare(cmd, image)
	cmd.AddCommand(NewServer(s), NewClient(s))
	return cmd
}

// list has an item for each check.
func list() string {
	var b strings.Builder
	lbtest.List(&b)
	return "* " + strings.ReplaceAll(strings.TrimSpace(b.String()), "\n", "\n* ") + "\n"
}

func (st *suite) declare(cmd *cobra.Command, image string) {
	o := &st.options
	st.output.Declare(cmd, output.Text, output.JSON, output.YAML, formatJUnit)
	flags := cmd.Flags()
	flags.StringVar(&o.Namespace, "namespace", "ccmadm-lb-test", "namespace to make; one that this command did not make is refused")
	flags.StringVar(&o.Image, "image", image, "image of the pods, whose entrypoint is ccmadm")
	flags.BoolVar(&o.Outside, "outside", true, "send requests from this machine, too")
	flags.StringVar(&o.OutsideAddress, "outside-address", "",
		"address of this machine as the cluster sees it, if a router translates it (default: its own)")
	flags.IntVar(&o.MaxNodes, "max-nodes", 10, "on how many Nodes a client pod runs; 0: on none")
	flags.IntVar(&o.Requests, "requests", 20, "how many requests each client sends in a row")
	flags.BoolVar(&o.Disrupt, "disrupt", false,
		"also restart the node agent of provider onprem that announces an address, and count lost requests")
	flags.BoolVar(&o.Keep, "keep", false, "keep the namespace and its pods at the end")
	flags.StringSliceVar(&o.Only, "run", nil, "names of the checks to run, with commas (default: all)")
	flags.StringSliceVar(&o.Skip, "skip", nil, "names of checks to leave out, with commas")
	flags.StringVar(&o.Class, "class", "", "loadBalancerClass of the Services")
	flags.StringArrayVar(&st.annotations, "annotation", nil, "KEY=VALUE, an annotation of each Service; may be repeated")
	flags.StringVar(&o.AddressAnnotation, "address-annotation", "",
		"annotation that asks for an address (default: that of ccmadm, MetalLB, Cilium or kube-vip, if one of them is recognized)")
	flags.StringVar(&o.ShareAnnotation, "share-annotation", "",
		"annotation that lets Services share an address (default: that of ccmadm, MetalLB or Cilium, if one of them is recognized)")
	flags.Int32Var(&o.Port, "port", 7480, "port of the first Service; up to 40 from there on are used")
	flags.DurationVar(&o.Wait, "wait", 2*time.Minute, "how long one thing may take: an address, a change, a deletion")
	flags.DurationVar(&o.Timeout, "timeout", 20*time.Minute, "how long the whole run may take")
	flags.BoolVar(&st.quiet, "quiet", false, "no progress on standard error")
	for _, name := range []string{"run", "skip"} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(lbtest.Names(), cobra.ShellCompDirectiveNoFileComp)) // declared above
	}
}

func (st *suite) run(cmd *cobra.Command, s workflow.Streams, connect func(workflow.Streams) (*rest.Config, error)) error {
	if err := st.check(); err != nil {
		return err
	}
	o := st.options
	var err error
	if o.Cluster, err = connect(s); err != nil {
		return err
	}
	if o.Holder, err = os.Hostname(); err != nil {
		o.Holder = "a machine without a name" // for people only
	}
	if !st.quiet {
		o.Progress = func(text string) { fmt.Fprintln(s.Err, text) }
	}
	report, err := lbtest.Run(cmd.Context(), o)
	if report == nil {
		return err
	}
	if shown := st.show(s, report); shown != nil {
		return shown
	}
	if failed := report.Judge(); failed != nil && report.Count(lbtest.Fail) > 0 {
		if err != nil {
			fmt.Fprintf(s.Err, "ccmadm: warning: %v\n", err)
		}
		return failed
	}
	if err != nil {
		return err
	}
	return report.Judge()
}

// check refuses flags before the cluster is looked for.
func (st *suite) check() error {
	if err := st.output.Check(); err != nil {
		return err
	}
	st.options.Annotations = map[string]string{}
	for _, text := range st.annotations {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return finding.Usagef("read --annotation: %q has not the form KEY=VALUE", text)
		}
		st.options.Annotations[key] = value
	}
	return st.options.Check()
}

func (st *suite) show(s workflow.Streams, report *lbtest.Report) error {
	return st.output.Write(s.Out, output.Object(report), func() error {
		if st.output.Is(formatJUnit) {
			return report.WriteJUnit(s.Out)
		}
		return report.WriteTable(s.Out)
	})
}
