package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/externalips"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/output"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func newLBExternalIPs(s workflow.Streams) *cobra.Command {
	var o observer
	cmd := &cobra.Command{
		Use:   "external-ips",
		Short: "List Services with externalIPs, and print what moves them into an AddressPool",
		Long: `Shows every Service with spec.externalIPs, which kube-proxy ignores from Kubernetes ` + finding.ExternalIPs.Kind().Since + ` on: its
addresses, the AddressPool that contains them or would, and what else has them. Then it prints the AddressPools to create, and the kubectl commands that
make each Service a LoadBalancer with the same address, by annotation ` + v1alpha1.AddressesAnnotation + `. externalIPs are taken away
only after the load balancer is ready. ccmadm changes nothing.

ACTION is Move, Remove for externalIPs that have no effect, or Blocked with the reason: the address is a Node's or the control
plane's, belongs to another Service, or no AddressPool can give it. The provider's own rules are asked.` + exitStatuses(
			ending{finding.ExitDone, "no Service has externalIPs"}, ending{finding.ExitFound, "a Service has externalIPs"}),
		Example: "  ccmadm lb external-ips\n  ccmadm lb external-ips -o wide\n  ccmadm lb external-ips -o json | jq -r '.services[].commands[]?'",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.output.Check(); err != nil {
				return err
			}
			cluster, err := o.externalIPs(cmd.Context(), s)
			if err != nil {
				return err
			}
			kubectl := o.kubectl()
			plan := cluster.Plan(kubectl...)
			err = o.output.Write(s.Out, output.Line(plan), func() error { return plan.Show(s.Out, kubectl, o.output.Is(output.Wide)) })
			if err != nil {
				return err
			}
			return leftExternalIPs(plan)
		},
	}
	o.declareFormats(cmd, output.Text, output.Wide, output.JSON, output.YAML)
	return cmd
}

// externalIPs looks at what a plan needs.
func (o *observer) externalIPs(ctx context.Context, s workflow.Streams) (*externalips.Cluster, error) {
	config, err := o.config(s)
	if err != nil {
		return nil, err
	}
	server := config.Host
	if u, err := url.Parse(config.Host); err == nil && u.Host != "" {
		server = u.Hostname()
	}
	return readNetwork(ctx, o, s, func(ctx context.Context, c client.Reader) (*externalips.Cluster, error) {
		return externalips.Read(ctx, c, server)
	})
}

// kubectl begins a command for the cluster that was looked at. Credentials of flags are not repeated.
func (o *observer) kubectl() []string {
	words := []string{"kubectl"}
	for _, flag := range []struct{ name, value string }{
		{"kubeconfig", *o.flags.KubeConfig}, {"context", *o.flags.Context}, {"cluster", *o.flags.ClusterName}, {"user", *o.flags.AuthInfoName},
	} {
		if flag.value != "" {
			words = append(words, "--"+flag.name+"="+flag.value)
		}
	}
	return words
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
