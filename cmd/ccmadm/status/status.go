// Package status is `ccmadm status`: the state of every Node of one cluster, or a row for each of several.
//
// Start at [NewCommand]. Package doctor/nodes knows the states, package contexts the rows.
//
// Reads: the cluster, and on a control plane the certificate of its cloud-controller-manager. Writes: nothing.
// Running it twice: asks again, as --watch does.
// It will not: look for causes; package doctor does.
package status

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/completion"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/contexts"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/doctor"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/observer"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/output"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/usage"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/watch"
	"github.com/ccmadm/ccmadm/doctor/diagnosis"
	"github.com/ccmadm/ccmadm/doctor/network"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/kubeadm/identity"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// status is what one cluster, or many, are asked for.
type status struct {
	observer.Cluster
	contexts []string
	all      bool
	// timeout is for each of many clusters, of which atOnce are asked at the same time.
	timeout  time.Duration
	atOnce   int
	findings bool
	watch    bool
	interval time.Duration
	// given is the kubeconfig that the command line names; empty: none.
	given string
	// runs is what earlier looks have seen of runs that may be under way, by context.
	runs map[string]*doctor.Runs
}

// NewCommand returns the command.
func NewCommand(s workflow.Streams) *cobra.Command {
	var st status
	cmd := &cobra.Command{
		Use:   "status [NODE...]",
		Short: "Show the state of every node, and why one is not initialized",
		Long: `Shows each node's state once: ` + strings.Join(nodes.StateNames(), ", ") + `.

Load balancers, routes and the control plane's own address have one line each, if the cluster has any. They do not change the
exit status: "ccmadm lb list" and "ccmadm routes check" have one for them.

--contexts and --all-contexts show one table for several contexts of the kubeconfig, with a row for each cluster: versions of its
API servers, ccmadm's record, the leader, Nodes (ready/all), the certificate of the connection that ends first, and errors and
warnings of the doctor. The clusters are asked side by side, each within --timeout. The row of a cluster that cannot be asked
says why. "?" marks what could not be read, and "-" or "none" what does not exist. Findings of the doctor do not change the exit
status.` + usage.ExitStatuses(usage.Endings{
			finding.ExitError: "a cluster cannot be asked",
			finding.ExitUsage: "the kubeconfig has no context of a given name, or none at all",
			finding.ExitNotInTime: "a Node is below Addressed, a kubelet stopped posting status or runs without\n" +
				"  --cloud-provider=external, or the cloud-controller-manager has lost its leader",
		}) +
			"\n\nOf many clusters, 2 is before 1, and 1 before 4. With --watch it is the status of the last look.",
		Example: `  ccmadm status
  ccmadm status w1 -o wide
  ccmadm status --watch
  ccmadm status --contexts ber1,muc1
  ccmadm status --all-contexts -o html > clusters.html`,
		RunE: func(cmd *cobra.Command, names []string) error {
			if err := st.check(cmd, names); err != nil {
				return err
			}
			st.given = *st.Flags.KubeConfig // later it is the one that was found
			look := func(ctx context.Context, s workflow.Streams) error { return st.one(ctx, s, names) }
			if st.many() {
				look = st.each
			}
			if !st.watch {
				return look(cmd.Context(), s)
			}
			return watch.Repeat(cmd.Context(), s.Out, st.interval, func(ctx context.Context, out io.Writer) error {
				return look(ctx, workflow.Streams{In: s.In, Out: out, Err: out, Getenv: s.Getenv})
			})
		},
	}
	st.declare(cmd)
	cmd.ValidArgsFunction = completion.Nodes(st.Connect)
	return cmd
}

func (st *status) declare(cmd *cobra.Command) {
	st.DeclareFormats(cmd, append(nodes.Formats(), formatHTML)...)
	flags := cmd.Flags()
	flags.StringSliceVar(&st.contexts, "contexts", nil, "contexts of the kubeconfig, with commas: a row for each cluster")
	flags.BoolVar(&st.all, "all-contexts", false, "a row for each context of the kubeconfig")
	flags.DurationVar(&st.timeout, "timeout", 10*time.Second, "time limit for each cluster of --contexts or --all-contexts")
	flags.IntVar(&st.atOnce, "at-once", 8, "how many clusters are asked at the same time")
	flags.BoolVar(&st.findings, "findings", true, "count what the doctor finds in each cluster of --contexts or --all-contexts")
	flags.BoolVar(&st.watch, "watch", false, "repeat until Ctrl-C: over itself on a terminal, elsewhere in blocks with their time")
	flags.DurationVar(&st.interval, "interval", 10*time.Second, "interval of --watch")
	cmd.MarkFlagsMutuallyExclusive("contexts", "all-contexts")
	for _, one := range []string{
		"context", "cluster", "user", "server", "token", "client-certificate", "client-key", "certificate-authority", "tls-server-name",
	} {
		cmd.MarkFlagsMutuallyExclusive("contexts", one)
		cmd.MarkFlagsMutuallyExclusive("all-contexts", one)
	}
	load := func() (api.Config, error) { return st.Flags.ToRawKubeConfigLoader().RawConfig() }
	_ = cmd.RegisterFlagCompletionFunc("contexts", completion.List(completion.Contexts(load))) // it is declared above
}

// formatHTML is a page for a browser.
const formatHTML = "html"

// many tells whether there is a row for each cluster.
func (st *status) many() bool { return st.all || len(st.contexts) > 0 }

// check refuses flags that have no meaning together.
func (st *status) check(cmd *cobra.Command, names []string) error {
	changed := cmd.Flags().Changed
	switch err := st.Output.Check(); {
	case err != nil:
		return err
	case changed("contexts") && len(st.contexts) == 0:
		return finding.Usagef("read --contexts: it names no context").WithHint("--all-contexts shows all of the kubeconfig")
	case st.many() && len(names) > 0:
		return finding.Usagef("status: names of Nodes are for one cluster").WithHint("ccmadm status --context NAME %s", names[0])
	case !st.many() && (changed("timeout") || changed("at-once") || changed("findings")):
		return finding.Usagef("status: --timeout, --at-once and --findings are for --contexts and --all-contexts")
	case st.timeout <= 0:
		return finding.Usagef("read --timeout: %s is not longer than 0", st.timeout)
	case st.atOnce < 1:
		return finding.Usagef("read --at-once: %d is less than 1", st.atOnce)
	case st.watch && !st.Output.Is(output.Text, output.Wide):
		return finding.Usagef("read --output: --watch shows text or wide, not %s", &st.Output)
	case st.interval < time.Second:
		return finding.Usagef("read --interval: %s is less than a second", st.interval)
	}
	return nil
}

// one shows one cluster.
func (st *status) one(ctx context.Context, s workflow.Streams, names []string) error {
	client, err := st.Client(s)
	if err != nil {
		return err
	}
	if st.Output.Is(formatHTML) {
		return st.page(ctx, client, s, names)
	}
	warnOfIdentity(s.Err)
	err = observer.Asked(show(ctx, client, names, newDisplay(st.Output.String(), s.Out), s.Err))
	if known := new(finding.Error); errors.As(err, &known) && known.Code == finding.ExitError {
		return err // the cluster could not be asked, and so it is with what else there is
	}
	if st.Output.Is(output.Text, output.Wide) {
		st.besides(ctx, client, s)
	}
	return err
}

// besides shows what else there is to say of a cluster.
func (st *status) besides(ctx context.Context, client kubernetes.Interface, s workflow.Streams) {
	st.showNetwork(ctx, s)
	st.showVIP(ctx, s)
	showServing(ctx, client, s)
	showUnlabelled(ctx, client, s)
}

// page writes one cluster as HTML.
func (st *status) page(ctx context.Context, client kubernetes.Interface, s workflow.Streams, names []string) error {
	report, err := observe(ctx, client, names)
	if err != nil {
		return observer.Asked(err)
	}
	var text bytes.Buffer
	st.besides(ctx, client, workflow.Streams{In: s.In, Out: &text, Err: &text, Getenv: s.Getenv})
	lines := strings.FieldsFunc(text.String(), func(r rune) bool { return r == '\n' })
	if err := contexts.WriteCluster(s.Out, report, lines, time.Now()); err != nil {
		return err
	}
	return verdictOn(report)
}

// each shows a row for each cluster.
func (st *status) each(ctx context.Context, s workflow.Streams) error {
	if err := st.Locate(s); err != nil {
		return err
	}
	kubeconfig, err := st.Flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil { // it names the file
		return finding.Usagef("load kubeconfig: %w", err).WithHint("--kubeconfig names another one")
	}
	list, err := contexts.Select(&kubeconfig, st.contexts, st.all, func(name string) (*rest.Config, error) {
		*st.Flags.Context = name
		defer func() { *st.Flags.Context = "" }()
		return st.Config(s)
	})
	if err != nil {
		return err
	}
	options := contexts.Options{Timeout: st.timeout, AtOnce: st.atOnce, Explain: observer.Asked, Kubeconfig: st.given}
	if st.findings {
		st.keepRuns(list)
		options.Diagnose = func(ctx context.Context, name string, client kubernetes.Interface) (*diagnosis.Snapshot, *diagnosis.Diagnosis, error) {
			return st.runs[name].Diagnose(ctx, client)
		}
	}
	rows := options.Ask(ctx, list)
	if ctx.Err() != nil {
		return finding.Errorf("status: ask %s: %w", finding.Count(len(list), "cluster"), ctx.Err())
	}
	err = st.Output.Write(s.Out, output.Lines(rows), func() error {
		if st.Output.Is(formatHTML) {
			return contexts.WritePage(s.Out, rows, time.Now())
		}
		return contexts.WriteTable(s.Out, rows, st.Output.Is(output.Wide))
	})
	if err != nil {
		return finding.Errorf("show the clusters: %w", err)
	}
	return options.Verdict(rows, &kubeconfig)
}

// keepRuns has what earlier looks have seen ready for each context, before several ask for it at the same time.
func (st *status) keepRuns(list []contexts.Context) {
	if st.runs == nil {
		st.runs = map[string]*doctor.Runs{}
	}
	for _, c := range list {
		if st.runs[c.Name] == nil {
			st.runs[c.Name] = &doctor.Runs{} // without patience: a row is not to wait for one run
		}
	}
}

// newDisplay knows all rows before it shows the first.
func newDisplay(format string, out io.Writer) nodes.Display {
	if format == "text" || format == "wide" {
		return nodes.NewList(out, format == "wide")
	}
	return nodes.NewDisplay(format, out)
}

// showNetwork has a line for load balancers and one for routes, where there are any. Who may not ask for them has asked
// for nodes.
func (st *status) showNetwork(ctx context.Context, s workflow.Streams) {
	snapshot, err := st.Network(ctx, s)
	if err != nil {
		line, _, _ := strings.Cut(err.Error(), "\n")
		fmt.Fprintf(s.Err, "ccmadm: warning: load balancers and routes are not known: %s\n", line)
		return
	}
	for _, line := range snapshot.Summary() {
		fmt.Fprintln(s.Out, line)
	}
}

// showVIP has a line for the control plane's own address, where there is one.
func (st *status) showVIP(ctx context.Context, s workflow.Streams) {
	v, err := observer.ReadNetwork(ctx, &st.Cluster, s, network.ReadVIP)
	if err != nil {
		line, _, _ := strings.Cut(err.Error(), "\n")
		fmt.Fprintf(s.Err, "ccmadm: warning: the owner of the control plane's address is unknown: %s\n", line)
		return
	}
	if v != nil {
		fmt.Fprintln(s.Out, v.Summary()+": ccmadm lb vip")
	}
}

// showServing has a line for serving certificates, where kubelets ask for any. Who may not look has asked for nodes.
func showServing(ctx context.Context, client kubernetes.Interface, s workflow.Streams) {
	ctx, cancel := context.WithTimeout(ctx, observer.Timeout)
	defer cancel()
	text, err := nodes.ServingCertificates(ctx, client)
	switch {
	case err != nil:
		fmt.Fprintf(s.Err, "ccmadm: warning: serving certificates are not known: %v\n", err)
	case text != "":
		fmt.Fprintln(s.Out, text)
	}
}

func show(
	ctx context.Context,
	client kubernetes.Interface,
	names []string,
	d nodes.Display,
	warn io.Writer,
) error {
	report, err := observe(ctx, client, names)
	if err != nil {
		return err
	}
	for _, n := range report.Nodes {
		d.Show(n)
	}
	for _, f := range report.Findings {
		d.Tell(f)
	}
	_, _, warnings := report.Verdict()
	for _, text := range warnings {
		fmt.Fprintf(warn, "warning: %s\n", text)
	}
	if err := d.Close(); err != nil {
		return err
	}
	return verdictOn(report)
}

func observe(ctx context.Context, client kubernetes.Interface, names []string) (*nodes.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, observer.Timeout)
	defer cancel()
	report, err := nodes.Observe(ctx, client, workflow.FindLease(ctx, client), names)
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	return report, nil
}

// verdictOn is what keeps a cluster from being well, as exit status; nil where nothing does.
func verdictOn(report *nodes.Report) error {
	lines, hints, _ := report.Verdict()
	if len(lines) == 0 {
		return nil
	}
	return &finding.Error{
		Code: finding.ExitNotInTime, Err: errors.New("status: " + strings.Join(lines, "\n")), Hint: strings.Join(hints, "\n"),
	}
}

// warnOfIdentity tells, on a control plane, when the certificate of its cloud-controller-manager ends: nothing else
// on a cluster watches it. What cannot be read is said, too: it is no sign of health.
func warnOfIdentity(out io.Writer) {
	end, warning, err := identity.Check(machine.New())
	switch {
	case err != nil && !errors.Is(err, fs.ErrPermission): // not an administrator of this machine
		fmt.Fprintf(out, "ccmadm: warning: %v\n", err)
	case warning != nil:
		fmt.Fprintf(
			out,
			"ccmadm: warning: %s %s: %s\nccmadm: hint: %s\n",
			warning.ID,
			warning.Object,
			warning.Message,
			warning.Next,
		)
	case !end.IsZero():
		fmt.Fprintf(out, "the certificate of this machine's cloud-controller-manager ends on %s\n", end.Format(time.DateOnly))
	}
}

// showUnlabelled warns of control planes whose Node has lost its label. Who may not look has asked for nodes.
func showUnlabelled(ctx context.Context, client kubernetes.Interface, s workflow.Streams) {
	ctx, cancel := context.WithTimeout(ctx, observer.Timeout)
	defer cancel()
	names, err := nodes.Unlabelled(ctx, client)
	switch {
	case err != nil:
		fmt.Fprintf(s.Err, "ccmadm: warning: control planes without their label are not known: %v\n", err)
	case len(names) > 0:
		fmt.Fprintf(s.Err, "ccmadm: warning: no label %s on Node/%s\nccmadm: hint: %s\n", v1alpha1.ControlPlaneLabel,
			strings.Join(names, ", Node/"), nodes.UnlabelledHint(names))
	}
}
