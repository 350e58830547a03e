package agent

import (
	"context"
	"fmt"

	"github.com/vishvananda/netns"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/provider/objects"
	"github.com/ccmadm/ccmadm/provider/routes"
)

// removeRoutes takes away what an agent with --routes has left on this machine. Pods that still have its network lose the
// others: that is what switching routes off says. An error is logged, since addresses are announced without it.
func removeRoutes() {
	kernel, err := routes.OpenKernel(netns.None())
	if err == nil {
		defer kernel.Close()
		var left routes.Leftovers
		if left, err = kernel.Leftovers(); err == nil {
			err = kernel.Remove(left)
		}
		if err == nil && !left.Empty() {
			klog.InfoS("Routes are switched off: removed the remaining routes", "removed", left.Lines())
		}
	}
	if err != nil {
		klog.ErrorS(err, "Routes are switched off, and routes may still be left")
	}
}

// runRoutes sets the routes of this machine, and reports them, in goroutines of the group until ctx is done. The result
// gives its socket back.
func runRoutes(ctx context.Context, group *errgroup.Group, config *rest.Config, o Options, c *caches, report *reporter) (func(), error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	ours, err := objects.New(config)
	if err != nil {
		return nil, err
	}
	kernel, err := routes.OpenKernel(netns.None())
	if err != nil {
		return nil, err
	}
	agent := &routes.Agent{
		Node: o.NodeName, Nodes: c.nodes, Within: o.ClusterCIDRs, Kernel: kernel, CNIDir: o.CNIConfigDir,
		AddOns: &routes.AddOns{Client: client},
	}
	reports, err := newRoutesReporter(ours, o.NodeName, c.nodes, agent.Routes)
	if err != nil {
		kernel.Close()
		return nil, err
	}
	agent.Changed = func() { report.changed(); reports.changed() }
	report.sources = append(report.sources, agent.Report)
	group.Go(func() error { return agent.Run(ctx) }) // it needs the Nodes only
	group.Go(func() error { reports.run(ctx); return nil })
	return kernel.Close, nil
}
