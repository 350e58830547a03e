package main

import (
	"fmt"

	"github.com/vishvananda/netns"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/provider/routes"
)

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
