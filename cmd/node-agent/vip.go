package main

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/agent/vip"
	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// vipFlags are the command line's of the static pod that holds the control plane's own address, as they are read.
type vipFlags struct {
	vip.Options

	address, nodeAddress, bgp string
}

func newVIPCommand(version string, run func(context.Context, vip.Options) error) *cobra.Command {
	var o vipFlags
	logOptions := logs.NewOptions()
	cmd := &cobra.Command{
		Use:   "vip",
		Args:  cobra.NoArgs,
		Short: "Hold the control plane's address (VIP) on a machine whose API server answers",
		Long: `Runs as a static pod on every control plane, before there is a cluster and without one. The address is on lo while the
machine's API server answers. With --bgp all of these machines announce it to routers. Without --bgp one machine with the
interface answers ARP or NDP for it, while a majority of the control planes agrees. /readyz reports why this machine does not
have the address.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := logsapi.ValidateAndApply(logOptions, nil); err != nil {
				return err
			}
			klog.InfoS("Starting vip", "version", version, "node", o.NodeName, "address", o.address)
			if err := o.parse(); err != nil {
				return err
			}
			return run(cmd.Context(), o.Options)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.NodeName, "node-name", "", "name of the Node (required)")
	flags.StringVar(&o.nodeAddress, "node-address", "", "address where the other control planes hear this one (required)")
	flags.StringVar(&o.address, "vip", "", "the address (required)")
	flags.StringVar(&o.Interface, "interface", "", "without --bgp: network interface on which it is answered for")
	flags.IntVar(&o.APIServerPort, "api-server-port", 6443, "port of this machine's API server")
	flags.StringVar(&o.MembersFile, "members-file", "", "without --bgp: file with the control planes that are known; it is kept up to date")
	flags.StringVar(&o.CAFile, "ca-file", "", "CA of the API server (required)")
	flags.StringVar(&o.SecretFile, "secret-file", "", "without --bgp: file that only control planes have, for the key of heartbeats")
	flags.StringVar(&o.Kubeconfig, "kubeconfig", "", "without --bgp: kubeconfig for this machine's API server, to list control planes")
	flags.Uint16Var(&o.HeartbeatPort, "heartbeat-port", v1alpha1.VIPHeartbeatPort, "UDP port on which control planes hear each other")
	flags.StringVar(&o.bgp, "bgp", "", "routers to which it is announced: controlPlaneVIP.bgp of the configuration, in JSON")
	flags.StringVar(&o.MetricsAddress, "metrics-address", vip.MetricsAddress, "where /healthz, /readyz and /metrics are served; empty: nowhere")
	for _, name := range []string{"node-name", "node-address", "vip", "ca-file"} {
		_ = cmd.MarkFlagRequired(name) // fails only for a flag that was not declared
	}
	cmd.MarkFlagsRequiredTogether("interface", "members-file", "secret-file", "kubeconfig")
	cmd.MarkFlagsOneRequired("interface", "bgp")
	cmd.MarkFlagsMutuallyExclusive("interface", "bgp")
	logsapi.AddFlags(logOptions, flags)
	return cmd
}

// parse reads what is no text to the program.
func (o *vipFlags) parse() (err error) {
	if o.Address, err = netip.ParseAddr(o.address); err != nil {
		return fmt.Errorf("--vip: %w", err)
	}
	if o.NodeAddress, err = netip.ParseAddr(o.nodeAddress); err != nil {
		return fmt.Errorf("--node-address: %w", err)
	}
	if o.bgp != "" {
		o.BGP = &config.ControlPlaneVIPBGP{}
		if err := yaml.UnmarshalStrict([]byte(o.bgp), o.BGP); err != nil {
			return fmt.Errorf("--bgp: %w", err)
		}
	}
	return nil
}
