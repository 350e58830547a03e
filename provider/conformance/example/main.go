// Command example is a cloud-controller-manager for a cloud that lists its machines over HTTP. It is the provider of
// the guide "Write your own cloud provider": small enough to be copied, and it keeps every rule of its conformance
// test.
//
// Start at cloud.go, which answers upstream's controllers.
//
// Reads: --cloud-config, a YAML file with the url of the cloud, and upstream's flags.
// Writes: nothing. Upstream's controllers write Nodes.
// Running it twice: one leads, the other waits for the Lease.
package main

import (
	"os"

	"k8s.io/apimachinery/pkg/util/wait"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	"k8s.io/component-base/cli"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"
)

func main() {
	cloudprovider.RegisterCloudProvider(providerName, newCloud)
	o, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		klog.Fatal(err)
	}
	cmd := app.NewCloudControllerManagerCommand(o, initialize, app.DefaultInitFuncConstructors,
		names.CCMControllerAliases(), cliflag.NamedFlagSets{}, wait.NeverStop)
	os.Exit(cli.Run(cmd))
}

// initialize makes the provider that --cloud-provider names from --cloud-config.
func initialize(c *config.CompletedConfig) cloudprovider.Interface {
	flags := c.ComponentConfig.KubeCloudShared.CloudProvider
	cloud, err := cloudprovider.InitCloudProvider(flags.Name, flags.CloudConfigFile)
	if err != nil {
		klog.Fatal(err)
	}
	return cloud
}
