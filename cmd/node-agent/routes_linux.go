package main

import (
	"github.com/vishvananda/netns"

	"github.com/ccmadm/ccmadm/provider/routes"
)

// newRoutes makes what sets the routes of this machine, and what gives its socket back.
func newRoutes(o options, c *caches, report *reporter) (*routes.Agent, func(), error) {
	within, err := o.podRanges()
	if err != nil {
		return nil, nil, err
	}
	kernel, err := routes.OpenKernel(netns.None())
	if err != nil {
		return nil, nil, err
	}
	agent := &routes.Agent{
		Node: o.nodeName, Nodes: c.nodes, Within: within, Kernel: kernel, CNIDir: o.cniDir, Changed: report.changed,
	}
	report.sources = append(report.sources, agent.Report)
	return agent, kernel.Close, nil
}
