package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/agent/changes"
	"github.com/ccmadm/ccmadm/agent/metrics"
	"github.com/ccmadm/ccmadm/agent/vip"
	"github.com/ccmadm/ccmadm/provider/announce"
)

// drainTime is how long a SIGTERM waits for others to take what this Node announces.
const drainTime = 2 * time.Second

// run announces until ctx is done, and then hands over.
func run(ctx context.Context, o options) error {
	config, err := clientConfig(o)
	if err != nil {
		return err
	}
	c, err := newCaches(config)
	if err != nil {
		return err
	}
	if err := c.apiServers.shield(o.vip); err != nil {
		return err
	}
	c.apiServers.look(ctx)
	changed, poke := changes.New()
	// What announces outlives ctx: it hands over first, and needs the caches for that.
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, working := errgroup.WithContext(working)
	group.Go(func() error { return metrics.Server{Address: o.metricsAddress}.Serve(working) })
	group.Go(func() error { c.apiServers.run(working); return nil })
	report, err := newReporter(config, o, c)
	if err != nil {
		return err
	}
	if o.routes {
		closeKernel, err := runRoutes(working, group, config, o, c, report)
		if err != nil {
			return err
		}
		defer closeKernel()
	} else {
		removeRoutes()
	}
	report.sources = append(report.sources, reportListening, reportGateways)
	if o.vip != "" {
		watch := vip.NewWatch(report.changed)
		report.sources = append(report.sources, watch.Report)
		group.Go(func() error { watch.Run(working); return nil })
	}
	announcers, err := newAnnouncers(working, config, o, c, report)
	if err != nil {
		return err
	}
	group.Go(func() error { report.run(working); return nil })
	group.Go(func() error {
		defer stop()
		if err := c.run(ctx, working, poke); err != nil || ctx.Err() != nil {
			return err
		}
		announceUntil(ctx, working, group, o.nodeName, c, announcers, changed, poke)
		return nil
	})
	return group.Wait()
}

// announceUntil runs the announcers, shows them each view of the cluster until ctx is done, and lets them hand over.
func announceUntil(ctx, working context.Context, group *errgroup.Group, node string, c *caches, announcers []announce.Announcer,
	changed <-chan struct{}, poke func(),
) {
	klog.InfoS("Seen the cluster")
	kubeProxy, carried := &proxy{}, newCarriage(poke)
	group.Go(func() error { return c.passwords.run(working, poke) })
	group.Go(func() error { return kubeProxy.run(working, proxyHealth, poke) })
	for _, a := range announcers {
		group.Go(func() error { return a.Run(working) })
	}
	poke()
	changes.Follow(ctx, working, changed, func() {
		view := c.view(node)
		view.Draining = kubeProxy.sick.Load()
		carried.mark(working, view, c.services.GetStore())
		for _, a := range announcers {
			a.Set(view)
		}
	})
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

func clientConfig(o options) (*rest.Config, error) {
	var config *rest.Config
	var err error
	if o.kubeconfig == "" {
		config, err = rest.InClusterConfig()
	} else {
		config, err = clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	config.UserAgent = "node-agent/" + o.version
	return config, nil
}
