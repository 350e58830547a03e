// Command cloud-controller-manager runs upstream's cloud controllers (node, node
// lifecycle, service, route) with the onprem provider.
//
// Start at run in run.go: serve, wait, lead. It is a binary of its own because
// k8s.io/cloud-provider/app registers global flags and feature gates.
//
// Reads: a kubeconfig, or the ServiceAccount of its pod, and --cloud-config.
// Writes: Nodes that wait for their initialization, Events, and the Lease
// kube-system/cloud-controller-manager.
// Running it twice: one leads, the others wait for the Lease.
// It will not: exit because the API server or its own permissions are late.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/component-base/cli"

	"github.com/ccmadm/ccmadm/provider"
)

var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	cloudprovider.RegisterCloudProvider(provider.Name, provider.New)
	cmd, err := newCommand(version)
	utilruntime.Must(err)
	cmd.SetContext(ctx)
	code := cli.Run(cmd)
	stop()
	os.Exit(code)
}
