package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/completion"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/output"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/kubeadm/identity"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func newStatus(s workflow.Streams) *cobra.Command {
	var o observer
	cmd := &cobra.Command{
		Use:   "status [NODE...]",
		Short: "Show the state of every node, and why one is not initialized",
		Long: `Shows each node's state once: ` + strings.Join(nodes.StateNames(), ", ") + `.

Load balancers, routes and the control plane's own address have one line each, if the cluster has any. They do not change the
exit status: "ccmadm lb list" and "ccmadm routes check" have one for them.` + exitStatuses(
			ending{finding.ExitNotInTime, "a Node is below Addressed, a kubelet stopped posting status or runs without\n  --cloud-provider=external, or the cloud-controller-manager has lost its leader"}),
		Example: "  ccmadm status\n  ccmadm status w1 -o wide",
		RunE: func(cmd *cobra.Command, names []string) error {
			if err := o.output.Check(); err != nil {
				return err
			}
			client, err := o.client(s)
			if err != nil {
				return err
			}
			warnOfIdentity(s.Err)
			err = asked(showStatus(cmd.Context(), client, names, statusDisplay(o.output.String(), s.Out), s.Err))
			if known := new(finding.Error); errors.As(err, &known) && known.Code == finding.ExitError {
				return err // the cluster could not be asked, and so it is with what else there is
			}
			if o.output.Is(output.Text, output.Wide) {
				o.showNetwork(cmd.Context(), s)
				o.showVIP(cmd.Context(), s)
				showServing(cmd.Context(), client, s)
				showUnlabelled(cmd.Context(), client, s)
			}
			return err
		},
	}
	o.declareFormats(cmd, nodes.Formats()...)
	cmd.ValidArgsFunction = completion.Nodes(o.connect)
	return cmd
}

// statusDisplay knows all rows before it shows the first.
func statusDisplay(format string, out io.Writer) nodes.Display {
	if format == "text" || format == "wide" {
		return nodes.NewList(out, format == "wide")
	}
	return nodes.NewDisplay(format, out)
}

// showNetwork has a line for load balancers and one for routes, where there are any. Who may not ask for them has asked
// for nodes.
func (o *observer) showNetwork(ctx context.Context, s workflow.Streams) {
	snapshot, err := o.network(ctx, s)
	if err != nil {
		line, _, _ := strings.Cut(err.Error(), "\n")
		fmt.Fprintf(s.Err, "ccmadm: warning: load balancers and routes are not known: %s\n", line)
		return
	}
	for _, line := range snapshot.Summary() {
		fmt.Fprintln(s.Out, line)
	}
}

// showServing has a line for serving certificates, where kubelets ask for any. Who may not look has asked for nodes.
func showServing(ctx context.Context, client kubernetes.Interface, s workflow.Streams) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	text, err := nodes.ServingCertificates(ctx, client)
	switch {
	case err != nil:
		fmt.Fprintf(s.Err, "ccmadm: warning: serving certificates are not known: %v\n", err)
	case text != "":
		fmt.Fprintln(s.Out, text)
	}
}

// statusTimeout bounds one look at a cluster.
const statusTimeout = 30 * time.Second

func showStatus(
	ctx context.Context,
	client kubernetes.Interface,
	names []string,
	d nodes.Display,
	warn io.Writer,
) error {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	report, err := nodes.Observe(ctx, client, workflow.FindLease(ctx, client), names)
	if err != nil {
		return fmt.Errorf("status: %w", err)
	}
	for _, n := range report.Nodes {
		d.Show(n)
	}
	lines, hints := nodes.Tell(report.Failing(nodes.Addressed))
	for _, f := range report.Findings {
		d.Tell(f)
		if f.Severity == finding.SeverityWarning {
			fmt.Fprintf(warn, "warning: %s\n", f.Message)
			continue
		}
		lines = append(lines, f.Message)
		if f.Next != "" {
			hints = append(hints, f.Next)
		}
	}
	if err := d.Close(); err != nil || len(lines) == 0 {
		return err
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
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
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
