package main

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/agent/changes"
	"github.com/ccmadm/ccmadm/agent/metrics"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
)

// vipOptions are the command line's of the static pod that holds the control plane's own address.
type vipOptions struct {
	nodeName       string
	nodeAddress    string
	vip            string
	ifi            string
	apiServerPort  int
	membersFile    string
	caFile         string
	secretFile     string
	kubeconfig     string
	port           uint16
	metricsAddress string
	bgp            string
}

func newVIPCommand(version string) *cobra.Command {
	var o vipOptions
	logOptions := logs.NewOptions()
	cmd := &cobra.Command{
		Use:   "vip",
		Args:  cobra.NoArgs,
		Short: "Hold the control plane's own address on a machine whose API server answers",
		Long: `Runs as a static pod on every control plane, before there is a cluster and without one. The address is on lo while the
machine's API server answers. With --bgp all of those machines announce it to routers; without, one that has the
interface answers ARP or NDP for it, while a majority of the control planes agrees. /readyz says what keeps this machine
from it.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := logsapi.ValidateAndApply(logOptions, nil); err != nil {
				return err
			}
			klog.InfoS("Starting vip", "version", version, "node", o.nodeName, "address", o.vip)
			if o.bgp != "" {
				return runVIPByBGP(cmd.Context(), o)
			}
			return runVIP(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.nodeName, "node-name", "", "name of the Node (required)")
	flags.StringVar(&o.nodeAddress, "node-address", "", "address where the other control planes hear this one (required)")
	flags.StringVar(&o.vip, "vip", "", "the address (required)")
	flags.StringVar(&o.ifi, "interface", "", "without --bgp: network interface on which it is answered for")
	flags.IntVar(&o.apiServerPort, "api-server-port", 6443, "port of this machine's API server")
	flags.StringVar(&o.membersFile, "members-file", "", "without --bgp: file with the control planes that are known; it is kept up to date")
	flags.StringVar(&o.caFile, "ca-file", "", "CA of the API server (required)")
	flags.StringVar(&o.secretFile, "secret-file", "", "without --bgp: file that control planes have and nobody else, for the key of heartbeats")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "without --bgp: kubeconfig for this machine's API server, to list control planes")
	flags.Uint16Var(&o.port, "heartbeat-port", v1alpha1.VIPHeartbeatPort, "UDP port on which control planes hear each other")
	flags.StringVar(&o.bgp, "bgp", "", "routers to which it is announced: controlPlaneVIP.bgp of the configuration, in JSON")
	flags.StringVar(&o.metricsAddress, "metrics-address", "127.0.0.1:10394", "where /healthz, /readyz and /metrics are served; empty: nowhere")
	for _, name := range []string{"node-name", "node-address", "vip", "ca-file"} {
		_ = cmd.MarkFlagRequired(name) // fails only for a flag that was not declared
	}
	cmd.MarkFlagsRequiredTogether("interface", "members-file", "secret-file", "kubeconfig")
	cmd.MarkFlagsOneRequired("interface", "bgp")
	cmd.MarkFlagsMutuallyExclusive("interface", "bgp")
	logsapi.AddFlags(logOptions, flags)
	return cmd
}

// runVIP holds the address until ctx is done, and then hands it over.
func runVIP(ctx context.Context, o vipOptions) error {
	h, err := newHolder(o)
	if err != nil {
		return err
	}
	key, err := heartbeatKey(o.secretFile)
	if err != nil {
		return err
	}
	health, err := newHealth(o.caFile, o.apiServerPort)
	if err != nil {
		return err
	}
	changed, poke := changes.New()
	l2 := announce.NewL2(announce.L2Options{
		Node: o.nodeName, Key: key, Port: o.port, Changed: poke, Log: klog.Background(),
	})
	h.set, h.owns, h.answerable = l2.Set, l2.Owns, l2.Answerable
	h.votes, h.owner = l2.Votes, l2.OwnerOf
	registerVIPMetrics(h.report)
	working, stop := context.WithCancel(context.WithoutCancel(ctx)) // it hands over before it ends
	defer stop()
	group, working := errgroup.WithContext(working)
	ctx, end := context.WithCancel(ctx) // what fails ends the rest: the kubelet starts it again
	defer context.AfterFunc(working, end)()
	server := metrics.Server{Address: o.metricsAddress, Ready: h.state, Paths: answerVIP(h.report)}
	group.Go(func() error { return server.Serve(working) })
	group.Go(func() error { return l2.Run(working) })
	group.Go(func() error { return h.follow(ctx, o.kubeconfig) })
	group.Go(func() error { h.watchSegment(ctx); return nil })
	group.Go(func() error { changes.Follow(working, working, changed, h.moved); return nil })
	group.Go(func() error { keepOnLoopback(ctx, h.moved); return nil })
	group.Go(func() error { watchVotes(ctx, h.report); return nil })
	group.Go(func() error {
		defer stop()
		health.watch(ctx, h.hold)
		drained, cancel := context.WithTimeout(working, drainTime)
		defer cancel()
		l2.Drain(drained)
		return h.release()
	})
	return group.Wait()
}

// heartbeatKey is derived from a file that all control planes have: there is no Secret before there is a cluster.
func heartbeatKey(path string) ([]byte, error) {
	secret, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read --secret-file: %w", err)
	}
	if len(secret) < sha256.Size {
		return nil, fmt.Errorf("read --secret-file: %s has %d bytes, which is no secret", path, len(secret))
	}
	return hkdf.Key(sha256.New, secret, nil, "ccmadm.dev control plane address heartbeats", sha256.Size)
}

// newHolder starts with the control planes of the file, and with nothing on lo.
func newHolder(o vipOptions) (*holder, error) {
	address, here, err := o.addresses()
	if err != nil {
		return nil, err
	}
	members, err := readMembers(o.membersFile)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(members, func(m member) bool { return m.Name == o.nodeName })
	if i < 0 {
		return nil, errors.New("read --members-file: this Node is not in it")
	}
	members[i].Address, members[i].Silent = here, false
	h := &holder{
		self: o.nodeName, address: address, ifi: o.ifi, file: o.membersFile, members: members, now: time.Now,
		cut: errors.New("the network interfaces have not been read yet"),
	}
	return h, removeFromLoopback(address) // what a process that was killed has left there
}

// addresses are the one that is held, and the machine's own.
func (o vipOptions) addresses() (vip, here netip.Addr, err error) {
	if vip, err = netip.ParseAddr(o.vip); err != nil {
		return vip, here, fmt.Errorf("--vip: %w", err)
	}
	if here, err = netip.ParseAddr(o.nodeAddress); err != nil {
		return vip, here, fmt.Errorf("--node-address: %w", err)
	}
	return vip, here, nil
}
