package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/phases/machine"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ccmadm/ccmadm/phases"
)

// observer is what wait and status have in common.
type observer struct {
	kubeconfig string
	output     string
}

func (o *observer) declare(cmd *cobra.Command) {
	o.declareKubeconfig(cmd)
	cmd.Flags().StringVarP(&o.output, "output", "o", "text", "text or json")
}

func (o *observer) declareKubeconfig(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file (default: KUBECONFIG, /etc/kubernetes/admin.conf, ~/.kube/config)")
}

func (o *observer) client(s phases.Streams) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", phases.FindKubeconfig(o.kubeconfig, s.Env))
	if err != nil {
		return nil, &finding.Error{Code: finding.ExitUsage, Err: fmt.Errorf("load kubeconfig: %w", err), Hint: "--kubeconfig names one"}
	}
	config.QPS, config.Burst = 50, 100
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return client, nil
}

func newStatus(s phases.Streams) *cobra.Command {
	var o observer
	cmd := &cobra.Command{
		Use:   "status [NODE...]",
		Short: "Show the state of every node, and the cause where one is not initialized",
		Long: `Shows each node's state once: ` + stateNames() + `.
Exit status 4 if a node is below Addressed.`,
		RunE: func(cmd *cobra.Command, names []string) error {
			if err := checkOutput(o.output); err != nil {
				return err
			}
			client, err := o.client(s)
			if err != nil {
				return err
			}
			warnOfIdentity(s.Err)
			return showStatus(cmd.Context(), client, names, phases.NewRenderer(o.output, s.Out))
		},
	}
	o.declare(cmd)
	return cmd
}

func showStatus(ctx context.Context, client kubernetes.Interface, names []string, r nodes.Renderer) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	list, err := nodes.Observe(ctx, client, phases.FindLease(ctx, client), names)
	if err != nil {
		return &finding.Error{Code: finding.ExitError, Err: err}
	}
	late := &nodes.WaitError{Until: nodes.Addressed}
	for _, n := range list {
		r.Show(n)
		if n.State < nodes.Addressed {
			late.Nodes = append(late.Nodes, n)
		}
	}
	if err := r.Close(); err != nil {
		return &finding.Error{Code: finding.ExitError, Err: err}
	}
	if len(late.Nodes) == 0 {
		return nil
	}
	late.Err = errors.New("not yet")
	return &finding.Error{Code: finding.ExitNotInTime, Err: late, Hint: late.Hint()}
}

// warnOfIdentity tells, on a control plane, when the certificate of its cloud-controller-manager ends: nothing else on a
// cluster watches it. What cannot be read is said, too: it is no sign of health.
func warnOfIdentity(out io.Writer) {
	end, warning, err := phases.CheckIdentity(machine.New())
	switch {
	case err != nil && !errors.Is(err, fs.ErrPermission): // not an administrator of this machine
		fmt.Fprintf(out, "ccmadm: warning: %v\n", err)
	case warning != nil:
		fmt.Fprintf(out, "ccmadm: warning: %s %s: %s\nccmadm: hint: %s\n", warning.ID, warning.Object, warning.Message, warning.Next)
	case !end.IsZero():
		fmt.Fprintf(out, "the certificate of this machine's cloud-controller-manager ends on %s\n", end.Format(time.DateOnly))
	}
}
