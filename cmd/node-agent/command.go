package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/agent"
	"github.com/ccmadm/ccmadm/agent/vip"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// programs are what the commands run, once their flags are read.
type programs struct {
	agent func(context.Context, agent.Options) error
	vip   func(context.Context, vip.Options) error
}

// agentFlags are the command line's, as they are read.
type agentFlags struct {
	agent.Options

	address, vip string
	clusterCIDRs []string
}

func newCommand(version string, run programs) *cobra.Command {
	o := agentFlags{Options: agent.Options{Version: version, Count: agent.RegisterMetrics, CountHooks: agent.RegisterHookMetrics, CountEgress: agent.RegisterEgressMetrics}}
	logOptions := logs.NewOptions()
	cmd := &cobra.Command{
		Use:     "node-agent",
		Version: version,
		Args:    cobra.NoArgs,
		Short:   "Announce addresses of Services, and set routes to pods",
		Long: `Runs on every Node. It answers ARP and NDP for addresses of Services, announces them by BGP, and sets routes to pods, as
configured by AddressPools, BGPPeers and the cloud-controller-manager.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := logsapi.ValidateAndApply(logOptions, nil); err != nil {
				return err
			}
			if err := o.parse(); err != nil {
				return err
			}
			klog.InfoS("Starting node-agent", "version", version, "node", o.NodeName)
			return run.agent(cmd.Context(), o.Options)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.NodeName, "node-name", "", "name of the Node (required)")
	flags.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig; default: the ServiceAccount of the pod")
	flags.StringVar(&o.HeartbeatKeyFile, "heartbeat-key-file", "", "file with the key of heartbeats, 32 bytes (required)")
	flags.Uint16Var(&o.HeartbeatPort, "heartbeat-port", v1alpha1.HeartbeatPort, "UDP port on which agents hear each other")
	flags.StringVar(&o.address, "address", "", "own address for heartbeats; default: the first InternalIP of the Node")
	flags.StringVar(&o.MetricsAddress, "metrics-address", "127.0.0.1:10392", "where /healthz and /metrics are served; empty: nowhere")
	flags.StringVar(&o.vip, "control-plane-vip", "",
		"ADDRESS:PORT of the control plane: never a Service's, and kube-proxy's rules do not take connections to it")
	flags.BoolVar(&o.Routes, "routes", false, "set routes to the pods of all other Nodes")
	flags.StringSliceVar(&o.clusterCIDRs, "cluster-cidr", nil, "with --routes: the cluster's ranges of pods; no route leads elsewhere")
	flags.StringVar(&o.CNIConfigDir, "cni-config-dir", "", "with --routes: where to write a CNI configuration that connects the machine's pods; empty: nowhere")
	logsapi.AddFlags(logOptions, flags)
	cmd.AddCommand(newVIPCommand(version, run.vip))
	return cmd
}

// parse reads what is no text to the program, and refuses what does not go together.
func (o *agentFlags) parse() (err error) {
	if o.NodeName == "" {
		return errors.New("--node-name: must be set")
	}
	if o.HeartbeatKeyFile == "" {
		return errors.New("--heartbeat-key-file: must be set")
	}
	if o.address != "" {
		if o.Address, err = netip.ParseAddr(o.address); err != nil {
			return fmt.Errorf("--address: %w", err)
		}
	}
	if o.vip != "" {
		if o.ControlPlaneVIP, err = parseVIP(o.vip); err != nil {
			return err
		}
	}
	if !o.Routes && (len(o.clusterCIDRs) > 0 || o.CNIConfigDir != "") {
		return errors.New("--cluster-cidr, --cni-config-dir: need --routes")
	}
	for _, text := range o.clusterCIDRs {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return fmt.Errorf("--cluster-cidr: %w", err)
		}
		o.ClusterCIDRs = append(o.ClusterCIDRs, p.Masked())
	}
	return nil
}

// parseVIP reads --control-plane-vip.
func parseVIP(text string) (netip.AddrPort, error) {
	at, err := netip.ParseAddrPort(text)
	if err == nil && (at.Port() == 0 || at.Addr().Zone() != "" || !at.Addr().IsGlobalUnicast()) {
		err = errors.New("want ADDRESS:PORT, without a zone")
	}
	if err != nil {
		return at, fmt.Errorf("--control-plane-vip: %w", err)
	}
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port()), nil
}
