package conformance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/controllers/node"
	"k8s.io/cloud-provider/controllers/nodelifecycle"
	"k8s.io/cloud-provider/controllers/route"
	"k8s.io/cloud-provider/controllers/service"
	"k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/controller-manager/pkg/clientbuilder"
	_ "k8s.io/controller-manager/pkg/features/register" // the route controller asks for its gate, which only the flags of a manager register
)

const (
	// clusterName and clusterCIDR are what the flags of these names would say.
	clusterName = "conformance"
	clusterCIDR = "10.244.0.0/16"

	// periods of upstream's loops, which are 5 s, 10 s and 5 min in a cluster.
	monitorPeriod = 20 * time.Millisecond
	routePeriod   = 50 * time.Millisecond
	statusPeriod  = 50 * time.Millisecond
)

// bed is where one rule is checked: a provider, upstream's controllers around it, and what the rule has made so far.
type bed struct {
	cloud    Cloud
	client   kubernetes.Interface
	config   *rest.Config
	patience time.Duration
	workers  int // of the lifecycle controller

	seen     *observer
	machines int
	on       []func(bool) // faults to switch off at the end
	cancel   context.CancelFunc
	running  sync.WaitGroup
	factory  informers.SharedInformerFactory
}

// start runs the controllers as app.Run of k8s.io/cloud-provider does: Initialize, SetInformers, informers,
// controllers.
func (b *bed) start(ctx context.Context) error {
	ctx, b.cancel = context.WithCancel(ctx)
	b.seen = observe(b.cloud.Provider)
	b.factory = informers.NewSharedInformerFactory(b.client, 0)
	builder := clientbuilder.SimpleControllerClientBuilder{ClientConfig: b.config}
	b.cloud.Provider.Initialize(builder, ctx.Done())
	if user, ok := b.cloud.Provider.(cloudprovider.InformerUser); ok {
		user.SetInformers(b.factory)
	}
	run, err := b.controllers()
	if err != nil {
		return fmt.Errorf("start controllers: %w", err)
	}
	b.factory.Start(ctx.Done())
	for informer, synced := range b.factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("start controllers: informer of %v did not sync", informer)
		}
	}
	metrics := controllers.NewControllerManagerMetrics("conformance")
	for _, controller := range run {
		b.running.Go(func() { controller(ctx, metrics) })
	}
	return nil
}

// controllers makes those for which the provider has a role.
func (b *bed) controllers() ([]func(context.Context, *controllers.ControllerManagerMetrics), error) {
	var run []func(context.Context, *controllers.ControllerManagerMetrics)
	nodes, services := b.factory.Core().V1().Nodes(), b.factory.Core().V1().Services()
	if b.hasInstances() == nil {
		initialize, err := node.NewCloudNodeController(nodes, b.client, b.seen, statusPeriod, 2, 2)
		if err != nil {
			return nil, err
		}
		lifecycle, err := nodelifecycle.NewCloudNodeLifecycleController(nodes, b.client, b.seen, monitorPeriod, b.workers)
		if err != nil {
			return nil, err
		}
		run = append(run, initialize.RunWithContext, lifecycle.Run)
	}
	if b.hasLoadBalancers() == nil {
		c, err := service.New(b.seen, b.client, services, nodes, clusterName, utilfeature.DefaultFeatureGate)
		if err != nil {
			return nil, err
		}
		run = append(run, func(ctx context.Context, m *controllers.ControllerManagerMetrics) { c.Run(ctx, 2, m) })
	}
	if routes, ok := b.seen.Routes(); ok {
		_, cidr, err := net.ParseCIDR(clusterCIDR)
		if err != nil {
			return nil, err
		}
		c, err := route.New(routes, b.client, nodes, clusterName, []*net.IPNet{cidr})
		if err != nil {
			return nil, err
		}
		run = append(run, func(ctx context.Context, m *controllers.ControllerManagerMetrics) { c.Run(ctx, routePeriod, m) })
	}
	return run, nil
}

// stop ends the controllers, heals the cloud and removes what is left of the rule.
func (b *bed) stop(ctx context.Context) error {
	for _, fault := range b.on {
		fault(false)
	}
	b.cancel()
	b.running.Wait()
	b.factory.Shutdown()
	return errors.Join(b.removeServices(ctx), b.removeNodes(ctx))
}

// fault switches a fault on and returns what switches it off.
func (b *bed) fault(f Fault) (heal func(), err error) {
	set := b.cloud.Faults[f]
	if set == nil {
		return nil, NotOffered{"Cloud.Faults[" + string(f) + "]"}
	}
	b.on = append(b.on, set)
	set(true)
	return func() { set(false) }, nil
}

// anyFault switches on the first fault, but Slow, that the cloud can be made to have.
func (b *bed) anyFault() (heal func(), err error) {
	for _, f := range faults() {
		if f == Slow {
			continue
		}
		if heal, err := b.fault(f); err == nil {
			return heal, nil
		}
	}
	return nil, NotOffered{"any of Cloud.Faults"}
}

// until polls until check is content.
func (b *bed) until(ctx context.Context, what string, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, b.patience)
	defer cancel()
	last := errors.New("there was no time")
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited %s until %s: %w", b.patience, what, last)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// quiet is the time of silence after which a controller is taken to have nothing to ask any more.
const quiet = 2 * time.Second

// settle waits until a controller has asked the provider three more times, or has fallen silent. For its first question
// about an object it has all the time there is.
func (b *bed) settle(ctx context.Context, method, object string) {
	const enough = 3
	before, deadline := b.seen.count(method, object), time.Now().Add(quiet)
	if before == 0 {
		deadline = time.Now().Add(b.patience)
	}
	for asked := 0; asked < enough && time.Now().Before(deadline); {
		if !pause(ctx, monitorPeriod) {
			return
		}
		if now := b.seen.count(method, object) - before; now > asked {
			asked, deadline = now, time.Now().Add(quiet)
		}
	}
}

// pause returns false if ctx was done before the time was over.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// settleMetadata gives the node controller time to ask about a Node.
func (b *bed) settleMetadata(ctx context.Context, node string) {
	if b.hasV2() == nil {
		b.settle(ctx, "InstanceMetadata", node)
		return
	}
	pause(ctx, quiet) // Instances are asked in several ways, which are not observed
}

// settleLifecycle gives the lifecycle controller time for three more passes over a Node that is not Ready.
func (b *bed) settleLifecycle(ctx context.Context, node string) {
	if b.hasV2() == nil {
		b.settle(ctx, "InstanceExists", node)
		return
	}
	b.settle(ctx, "InstanceExistsByProviderID", "") // which is not told the Node
}
