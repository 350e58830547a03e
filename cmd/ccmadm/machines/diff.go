package machines

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/observer"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/output"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/usage"
	"github.com/ccmadm/ccmadm/doctor/table"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/provider"
	"github.com/ccmadm/ccmadm/provider/nodes"
	"github.com/ccmadm/ccmadm/templates"
)

func newDiff(s workflow.Streams) *cobra.Command {
	var o observer.Cluster
	var path string
	cmd := &cobra.Command{
		Use:   "diff",
		Short: "Show what would change with another inventory",
		Long: `Runs the code of the cloud-controller-manager without writing. For each Node: whether it would be initialized, which labels,
taints and addresses would change, and whether it would be deleted: when at the earliest, or which rule of the deletion guard
keeps it. A Node that is stuck matches no machine, two machines, or a machine of another Node; it stays as it is. Machines
without a Node follow.` + usage.ExitStatuses(usage.Endings{
			finding.ExitDone:      "every Node agrees with the inventory",
			finding.ExitPreflight: "the inventory would be rejected, and the last good one stays",
			finding.ExitFound:     "something would change, or a Node is stuck",
		}),
		Example: `  ccmadm machines diff -f inventory.yaml
  ccmadm machines diff -f inventory.yaml -o json | jq '.nodes[] | select(.action == "delete")'`,
		Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Output.Check(); err != nil {
				return err
			}
			_, document, err := readInventory(path)
			if err != nil {
				return err
			}
			client, err := o.Client(s)
			if err != nil {
				return err
			}
			plan, err := planOf(cmd.Context(), client, path, document)
			if err != nil {
				return observer.Asked(err)
			}
			if err := showPlan(s.Out, &o.Output, plan); err != nil || !plan.Differs() {
				return err
			}
			return usage.ErrFound
		},
	}
	o.DeclareFormats(cmd, output.Text, output.JSON, output.YAML)
	requireInventory(cmd, &path)
	return cmd
}

func planOf(ctx context.Context, client kubernetes.Interface, path string, document []byte) (*nodes.Plan, error) {
	ctx, cancel := context.WithTimeout(ctx, observer.Timeout)
	defer cancel()
	config, err := onpremConfiguration(ctx, client)
	if err != nil {
		return nil, err
	}
	snapshot, err := nodes.TakeSnapshot(ctx, client, config)
	if err != nil {
		return nil, err
	}
	plan, err := nodes.NewPlan(ctx, document, snapshot)
	if err != nil {
		return nil, finding.Preflightf("%s would be rejected: %w", path, err)
	}
	return plan, nil
}

// onpremConfiguration is the provider's in the cluster. Without one, it has its defaults.
func onpremConfiguration(ctx context.Context, client kubernetes.Interface) (config.OnPremConfiguration, error) {
	profile, err := templates.Load(provider.Name)
	if err != nil {
		return config.OnPremConfiguration{}, err
	}
	secret, err := client.CoreV1().Secrets(metav1.NamespaceSystem).Get(ctx, v1alpha1.CloudConfigName, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return config.OnPremConfiguration{}, fmt.Errorf("read the provider's configuration: %w", err)
	}
	config, err := provider.ReadConfiguration(bytes.NewReader(secret.Data[profile.Config.File]))
	if err != nil {
		return config, fmt.Errorf("read Secret/kube-system/%s: %w", v1alpha1.CloudConfigName, err)
	}
	return config, nil
}

// showPlan prints one line for each thing that would change.
func showPlan(out io.Writer, format *output.Format, plan *nodes.Plan) error {
	return format.Write(out, output.Line(plan), func() error { return tabulatePlan(out, plan) })
}

func tabulatePlan(out io.Writer, plan *nodes.Plan) error {
	w := table.New(out, "NODE", "MACHINE", "ACTION", "DETAIL")
	for _, n := range plan.Nodes {
		line := func(detail string) { w.Row(n.Node, n.Machine, n.Action, detail) }
		for _, c := range n.Changes {
			line(fmt.Sprintf("%s: %s -> %s", c.Field, table.OrDash(c.Old), table.OrDash(c.New)))
		}
		if n.Message != "" || n.Action != nodes.Unchanged && len(n.Changes) == 0 {
			line(n.Message)
		}
	}
	for _, m := range plan.Spare {
		w.Row("", m.ID, "no Node", m.State)
	}
	return w.Flush()
}
