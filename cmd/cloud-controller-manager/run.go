package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/tools/leaderelection"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	_ "k8s.io/component-base/metrics/prometheus/clientgo/leaderelection" // leader_election_master_status, which upstream registers by import
	"k8s.io/component-base/metrics/prometheus/slis"
	genericapp "k8s.io/controller-manager/app"
	controllerhealthz "k8s.io/controller-manager/pkg/healthz"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/provider"
)

// leaseGrace is upstream's: /healthz fails this long after a leader should have
// renewed its Lease or exited.
const leaseGrace = 20 * time.Second

// run serves /healthz, waits for the API server, and runs the controllers while
// it leads, until ctx is done.
//
// It stands in for app.Run, which gives the API server ten seconds and then ends
// the process, and which keeps the Lease when it ends (kubernetes/kubernetes#119905).
func run(ctx context.Context, o *options.CloudControllerManagerOptions, approves *approval) error {
	ranges, certified, err := approves.parse()
	if err != nil {
		return err
	}

	cloud, err := newCloud(o.KubeCloudShared.CloudProvider.Name, o.KubeCloudShared.CloudProvider.CloudConfigFile)
	if err != nil {
		return err
	}
	if c, ok := cloud.(*provider.Cloud); ok && o.KubeCloudShared.ConfigureCloudRoutes {
		c.ServeRoutes()
	}
	if c, ok := cloud.(*provider.Cloud); ok && approves.on {
		c.ApproveServingCertificates(ranges, certified)
	}
	cfg, err := o.Config(controllers(), app.ControllersDisabledByDefault.List(), names.CCMControllerAliases(), nil, nil)
	if err != nil {
		return err
	}
	c := cfg.Complete()
	registerCertificateEnds(c.Kubeconfig)

	leading := leaderelection.NewLeaderHealthzAdaptor(leaseGrace)
	if err := serve(ctx, c, leading); err != nil {
		return err
	}
	if !waitForAccess(ctx, c.Client, permissions(c.ComponentConfig)) {
		return nil // told to stop before there was anything to do
	}
	return lead(ctx, c, leading, func(ctx context.Context) error { return runControllers(ctx, c, cloud) })
}

// newCloud makes the provider. Upstream's InitCloudProvider ends the process when
// the file cannot be read.
func newCloud(name, file string) (cloudprovider.Interface, error) {
	if !cloudprovider.IsCloudProvider(name) {
		return nil, fmt.Errorf("--cloud-provider=%s: this binary has no such provider; run the cloud-controller-manager of "+
			"that cloud's vendor", name)
	}
	var content io.Reader
	if file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("--cloud-config: %w", err)
		}
		content = bytes.NewReader(data)
	}
	cloud, err := cloudprovider.GetCloudProvider(name, content)
	if err != nil {
		return nil, fmt.Errorf("--cloud-config=%s: %w", file, err)
	}
	return cloud, nil
}

// serve answers on the secure port from the start, so that no liveness probe
// kills a process that is waiting for its turn.
func serve(ctx context.Context, c *config.CompletedConfig, leading healthz.HealthChecker) error {
	if c.SecureServing == nil {
		return nil
	}
	mux := genericapp.NewBaseHandler(&c.ComponentConfig.Generic.Debugging,
		controllerhealthz.NewMutableHealthzHandler(leading))
	slis.SLIMetricsWithReset{}.Install(mux)
	_, _, err := c.SecureServing.Serve(genericapp.BuildHandlerChain(mux, &c.Authorization, &c.Authentication), 0,
		ctx.Done())
	return err
}

// runControllers runs upstream's controllers until ctx is done. Election and
// serving are ours already: without them app.Run is just what starts controllers.
func runControllers(ctx context.Context, c *config.CompletedConfig, cloud cloudprovider.Interface) error {
	c.ComponentConfig.Generic.LeaderElection.LeaderElect = false
	c.SecureServing = nil
	initializers := app.ConstructControllerInitializers(app.DefaultInitFuncConstructors, c, cloud)
	if _, ok := cloud.LoadBalancer(); !ok {
		delete(initializers, names.ServiceLBController) // it would log an error at every start
	}
	queue := make(eventQueue, maxEvents)
	queue.run(ctx)
	c.ClientBuilder = queueing{c.ClientBuilder, queue}
	klog.InfoS("Starting controllers", "provider", cloud.ProviderName())
	return app.Run(c, cloud, initializers, nil, ctx.Done())
}
