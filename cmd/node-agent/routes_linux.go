package main

import (
	"fmt"

	"github.com/vishvananda/netns"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

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
			klog.InfoS("Routes are switched off: removed what was left of them", "removed", left.Lines())
		}
	}
	if err != nil {
		klog.ErrorS(err, "Routes are switched off, and what was left of them may still be there")
	}
}

// newRoutes makes what sets the routes of this machine, and what gives its socket back.
func newRoutes(config *rest.Config, o options, c *caches, report *reporter) (*routes.Agent, func(), error) {
	within, err := o.podRanges()
	if err != nil {
		return nil, nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("make client: %w", err)
	}
	kernel, err := routes.OpenKernel(netns.None())
	if err != nil {
		return nil, nil, err
	}
	agent := &routes.Agent{
		Node: o.nodeName, Nodes: c.nodes, Within: within, Kernel: kernel, CNIDir: o.cniDir,
		AddOns: &routes.AddOns{Client: client}, Changed: report.changed,
	}
	report.sources = append(report.sources, agent.Report)
	return agent, kernel.Close, nil
}
