// Package agent is what a Node's agent does: it announces addresses of Services, sets the routes of pods, and reports both.
//
// Start at [Run]. caches.go has what it reads, lean.go what it keeps of it, and matters.go what makes it look again.
// announcers_linux.go announces, and calls hooks, by provider/announce, without what apiservers.go knows to be the control plane's, and as
// proxy.go and proxyreadiness.go say of this Node's kube-proxy. egress_linux.go sends packets of pods with the address of their Service, by
// provider/egress, and routes_linux.go sets routes, by provider/routes. report.go
// writes what other agents read of it, and lease.go, announcements.go and routesreport.go what only the manager reads, each as an
// ownobject.go. agent/vip is another program: it holds the control plane's own address.
//
// Reads: Nodes, Services, EndpointSlices, IPAddresses, AddressPools, BGPPeers, NodeAgents, a Lease and two Secrets; this machine's
// kube-proxy, routes and sockets. Writes: the NodeAgent of its own Node, with NodeAgentLease and NodeAnnouncements beside it, Events, and
// with routes its NodeRoutes.
// Running it twice: the second one on a machine cannot listen for heartbeats, and says so.
package agent

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/agent/metrics"
	"github.com/ccmadm/ccmadm/agent/vip"
	"github.com/ccmadm/ccmadm/provider/announce"
	"github.com/ccmadm/ccmadm/provider/announce/l2"
	"github.com/ccmadm/ccmadm/provider/changes"
	"github.com/ccmadm/ccmadm/provider/egress"
)

// drainTime is how long a SIGTERM waits for others to take what this Node announces.
const drainTime = 2 * time.Second

// Options are what an agent is told.
type Options struct {
	Version  string
	NodeName string
	// Kubeconfig is a file; empty: the ServiceAccount of the pod.
	Kubeconfig string
	// HeartbeatKeyFile has the key of heartbeats, 32 bytes.
	HeartbeatKeyFile string
	// HeartbeatPort is the port of UDP on which agents hear each other.
	HeartbeatPort uint16
	// Address is the own one for heartbeats; none: the first InternalIP of the Node.
	Address netip.Addr
	// MetricsAddress is where /healthz and /metrics are served; empty: nowhere.
	MetricsAddress string
	// ControlPlaneVIP is never a Service's, and kube-proxy's rules do not take connections to it; none: there is none.
	ControlPlaneVIP netip.AddrPort
	// Routes has it set routes to the pods of all other Nodes, within the ClusterCIDRs, if there are any, and write a CNI
	// configuration into CNIConfigDir, unless that is empty. Otherwise it removes what was left of them.
	Routes       bool
	ClusterCIDRs []netip.Prefix
	CNIConfigDir string
	// Count shows what is counted, as RegisterMetrics does; nil: nowhere.
	Count func(func() l2.Counts)
	// CountHooks shows how many addresses there are whose hook fails, and returns what is told of each call, as RegisterHookMetrics does; nil:
	// nowhere.
	CountHooks func(failing func() int) func(result string, took time.Duration)
	// CountEgress shows what is counted, as RegisterEgressMetrics does; nil: nowhere.
	CountEgress func(func() egress.Counts)
}

// Run announces until ctx is done, and then hands over.
func Run(ctx context.Context, o Options) error {
	config, err := clientConfig(o)
	if err != nil {
		return err
	}
	c, err := newCaches(config)
	if err != nil {
		return err
	}
	c.apiServers.shield(o.ControlPlaneVIP)
	c.apiServers.look(ctx)
	changed, poke := changes.New()
	// What announces outlives ctx: it hands over first, and needs the caches for that.
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, working := errgroup.WithContext(working)
	group.Go(func() error { return metrics.Server{Address: o.MetricsAddress}.Serve(working) })
	group.Go(func() error { c.apiServers.run(working); return nil })
	report, err := newReporter(config, o.NodeName, o.Version, c)
	if err != nil {
		return err
	}
	if o.Routes {
		closeKernel, err := runRoutes(working, group, config, o, c, report)
		if err != nil {
			return err
		}
		defer closeKernel()
	} else {
		removeRoutes()
	}
	report.sources = append(report.sources, reportListening, reportGateways)
	if o.ControlPlaneVIP.IsValid() {
		watch := vip.NewWatch(report.changed)
		report.sources = append(report.sources, watch.Report)
		group.Go(func() error { watch.Run(working); return nil })
	}
	announcers, err := newAnnouncers(working, config, o, c, report)
	if err != nil {
		return err
	}
	group.Go(func() error { report.run(working); return nil })
	group.Go(func() error { report.apart.run(working); return nil })
	group.Go(func() error {
		defer stop()
		if err := c.run(ctx, working, poke); err != nil || ctx.Err() != nil {
			return err
		}
		announceUntil(ctx, working, group, o.NodeName, c, announcers, changed, poke)
		return nil
	})
	return group.Wait()
}

// announceUntil runs the announcers, shows them each view of the cluster until ctx is done, and lets them hand over.
func announceUntil(ctx, working context.Context, group *errgroup.Group, node string, c *caches, announcers []announce.Announcer,
	changed <-chan struct{}, poke func(),
) {
	klog.InfoS("Caches have synced")
	kubeProxy, carried := newProxy(sinceBoot()), newProxyReadiness(poke)
	group.Go(func() error { return c.passwords.run(working, poke) })
	group.Go(func() error { return c.tokens.run(working, poke) })
	group.Go(func() error { return kubeProxy.run(working, proxyHealth, poke) })
	for _, a := range announcers {
		group.Go(func() error { return a.Run(working) })
	}
	poke()
	changes.Follow(ctx, working, changed, changes.Paced(ctx, func() {
		view := c.view(node)
		view.Draining, view.Starting = kubeProxy.sick.Load(), kubeProxy.starting.Load()
		carried.mark(working, view, c.services.GetStore())
		for _, a := range announcers {
			a.Set(view)
		}
	}))
	drain(working, announcers)
}

// drain gives everything away.
func drain(ctx context.Context, announcers []announce.Announcer) {
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	group := errgroup.Group{}
	for _, a := range announcers {
		group.Go(func() error {
			a.Drain(ctx)
			return nil
		})
	}
	_ = group.Wait() // nothing in it fails
}

func clientConfig(o Options) (*rest.Config, error) {
	var config *rest.Config
	var err error
	if o.Kubeconfig == "" {
		config, err = rest.InClusterConfig()
	} else {
		config, err = clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	config.UserAgent = "node-agent/" + o.Version
	return config, nil
}
