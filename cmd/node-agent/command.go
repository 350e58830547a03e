package main

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/agent/vip"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
)

// options are the command line's.
type options struct {
	count          func(func() announce.Counts) // shows at /metrics what is counted
	version        string
	nodeName       string
	kubeconfig     string
	keyFile        string
	port           uint16
	address        string
	metricsAddress string
	routes         bool
	clusterCIDRs   []string
	cniDir         string
	vip            string
}

func newCommand(version string) *cobra.Command {
	o := options{version: version, count: registerMetrics}
	logOptions := logs.NewOptions()
	cmd := &cobra.Command{
		Use:     "node-agent",
		Version: version,
		Args:    cobra.NoArgs,
		Short:   "Announce addresses of Services, and set the routes of pods",
		Long: `Runs on every Node. It answers ARP and NDP for addresses of Services, announces them by BGP, and sets the
routes of pods, as AddressPools, BGPPeers and the cloud-controller-manager say.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := logsapi.ValidateAndApply(logOptions, nil); err != nil {
				return err
			}
			if err := o.validate(); err != nil {
				return err
			}
			klog.InfoS("Starting node-agent", "version", version, "node", o.nodeName)
			return run(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.nodeName, "node-name", "", "name of the Node (required)")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig; default: the ServiceAccount of the pod")
	flags.StringVar(&o.keyFile, "heartbeat-key-file", "", "file with the key of heartbeats, 32 bytes (required)")
	flags.Uint16Var(&o.port, "heartbeat-port", v1alpha1.HeartbeatPort, "UDP port on which agents hear each other")
	flags.StringVar(&o.address, "address", "", "own address for heartbeats; default: the first InternalIP of the Node")
	flags.StringVar(&o.metricsAddress, "metrics-address", "127.0.0.1:10392", "where /healthz and /metrics are served; empty: nowhere")
	flags.StringVar(&o.vip, "control-plane-vip", "",
		"ADDRESS:PORT of the control plane: never a Service's, and kube-proxy's rules do not take connections to it")
	flags.BoolVar(&o.routes, "routes", false, "set routes to the pods of all other Nodes")
	flags.StringSliceVar(&o.clusterCIDRs, "cluster-cidr", nil, "with --routes: the cluster's ranges of pods; no route leads elsewhere")
	flags.StringVar(&o.cniDir, "cni-config-dir", "", "with --routes: where to write a CNI configuration that connects the machine's pods; empty: nowhere")
	logsapi.AddFlags(logOptions, flags)
	cmd.AddCommand(newVIPCommand(version, vip.Run))
	return cmd
}

func (o options) validate() error {
	if o.nodeName == "" {
		return errors.New("--node-name: must be set")
	}
	if o.keyFile == "" {
		return errors.New("--heartbeat-key-file: must be set")
	}
	if o.address != "" {
		if _, err := netip.ParseAddr(o.address); err != nil {
			return fmt.Errorf("--address: %w", err)
		}
	}
	if o.vip != "" {
		if _, err := parseVIP(o.vip); err != nil {
			return err
		}
	}
	if !o.routes && (len(o.clusterCIDRs) > 0 || o.cniDir != "") {
		return errors.New("--cluster-cidr, --cni-config-dir: need --routes")
	}
	_, err := o.podRanges()
	return err
}

// podRanges are those of --cluster-cidr.
func (o options) podRanges() ([]netip.Prefix, error) {
	var list []netip.Prefix
	for _, text := range o.clusterCIDRs {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("--cluster-cidr: %w", err)
		}
		list = append(list, p.Masked())
	}
	return list, nil
}
