// Package provider is onprem, the cloud provider for machines that no cloud
// knows: it serves them as an inventory lists them, and without one as they
// present themselves through their kubelet.
//
// Start at New, which cmd/cloud-controller-manager registers under Name, and at connect, which puts everything together
// once there is a cluster. What is answered about a Node is in provider/nodes, what a site says of its machines in
// provider/inventory; their package docs follow an inventory to a label and to a deletion. Routes are in
// provider/routes, addresses of Services in provider/balancer.
//
// Reads: an OnPremConfiguration, Nodes, through the informer of the controller manager, and with an inventory also
// that, Leases of kubelets, and the last good copy.
// Writes: Warning Events on Nodes. Upstream's controllers write the provider ID,
// the labels and the addresses that it returns. With an inventory, also labels and
// annotations of Nodes that follow it, and ConfigMap
// kube-system/ccmadm-machines-last-good.
// Running it twice: answers for a Node depend on the inventory, that Node and its
// peers only. A provider ID, once on the Node, is returned as it is for ever.
// It will not: say that a machine is gone or shut down which the inventory does
// not list so, carry traffic. What the agents of machines have set, it answers for.
package provider

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/agents"
	"github.com/ccmadm/ccmadm/provider/balancer"
	"github.com/ccmadm/ccmadm/provider/inventory"
	"github.com/ccmadm/ccmadm/provider/nodes"
	"github.com/ccmadm/ccmadm/provider/objects"
	"github.com/ccmadm/ccmadm/provider/routes"
	"github.com/ccmadm/ccmadm/provider/serving"
)

// Name is what --cloud-provider says, and the scheme of every provider ID.
// Provider IDs are immutable: never change it.
const Name = inventory.Scheme

// clientName is the one under which upstream's node controllers write, so that
// --use-service-account-credentials needs no further ServiceAccount.
const clientName = "node-controller"

// Cloud is the onprem provider. It answers from SetInformers on, which upstream calls before it starts a controller.
type Cloud struct {
	config  config.OnPremConfiguration
	cluster *cluster // from Initialize to SetInformers
	nodes   atomic.Pointer[nodes.Nodes]
	routed  bool // ServeRoutes was called
	routes  atomic.Pointer[routes.Routes]

	balancer atomic.Pointer[balancer.Balancer]
	agents   *agents.Reader // from the first call of watchAgents

	approves bool           // ApproveServingCertificates was called
	ranges   []netip.Prefix // with these
	names    serving.Names
}

// cluster is how the API server is reached, and until when.
type cluster struct {
	ctx    context.Context // upstream has a channel from one call to the next
	client kubernetes.Interface
	config *rest.Config
}

// New makes the provider from an OnPremConfiguration; a nil reader means the
// defaults. It is a cloudprovider.Factory.
func New(config io.Reader) (cloudprovider.Interface, error) {
	c, err := ReadConfiguration(config)
	if err != nil {
		return nil, err
	}
	return &Cloud{config: c}, nil
}

var (
	_ cloudprovider.Factory      = New
	_ cloudprovider.Interface    = (*Cloud)(nil)
	_ cloudprovider.InformerUser = (*Cloud)(nil)
	_ cloudprovider.InstancesV2  = (*Cloud)(nil)
)

// Initialize takes the client. Upstream calls it in the leader only, and SetInformers next.
func (c *Cloud) Initialize(clients cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
	config, err := clients.Config(clientName)
	if err != nil {
		klog.ErrorS(err, "Node controller of the provider did not start: Nodes are not initialized", "provider", Name)
		return
	}
	client, err := clients.Client(clientName)
	if err != nil {
		klog.ErrorS(err, "Node controller of the provider did not start: Nodes are not initialized", "provider", Name)
		return
	}
	c.cluster = &cluster{ctx: wait.ContextForChannel(stop), client: client, config: config}
}

// SetInformers takes the Nodes from the informers of the controller manager: now everything is there.
func (c *Cloud) SetInformers(factory informers.SharedInformerFactory) {
	if c.cluster == nil {
		return // Initialize has said why
	}
	broadcaster := newBroadcaster(c.cluster.ctx)
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: c.cluster.client.CoreV1().Events("")})
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: Name})
	if err := c.connect(factory.Core().V1().Nodes().Informer(), recorder); err != nil {
		klog.ErrorS(err, "Node controller of the provider did not start: Nodes are not initialized", "provider", Name)
	}
	if c.config.LoadBalancers.On() {
		if err := c.connectBalancer(factory, recorder); err != nil {
			klog.ErrorS(err, "Load balancer controller did not start: LoadBalancer Services get no address", "provider", Name)
		}
	} else {
		go c.releaseBalancers()
	}
	if c.approves {
		if err := c.connectServing(factory, recorder); err != nil {
			klog.ErrorS(err, "Approver did not start: serving certificates of kubelets stay pending", "provider", Name)
		}
	}
	if !c.routed {
		return
	}
	if err := c.connectRoutes(factory); err != nil {
		klog.ErrorS(err, "Route controller did not start: Nodes get no routes", "provider", Name)
	}
}

// connect puts together what answers, and starts what follows the inventory. It happens once, in the leader.
func (c *Cloud) connect(informer cache.SharedIndexInformer, recorder record.EventRecorder) error {
	ctx, client := c.cluster.ctx, c.cluster.client
	settings := nodes.Settings{
		Configuration: c.config, Client: client, Informer: informer, Now: time.Now, Recorder: recorder,
	}
	if c.config.Inventory == nil {
		return c.serve(nodes.New(settings))
	}
	limits := inventory.Limits{Site: c.config.Site, MaxLossPercent: c.config.Inventory.MaxLossPercent}
	if c.config.Inventory.File != "" {
		limits.OwnCopies = func() bool { return severalControlPlanes(informer) }
	}
	settings.Store = inventory.NewStore(limits, time.Now)
	served, err := nodes.New(settings)
	if err := c.serve(served, err); err != nil {
		return err
	}
	watcher := &inventory.Watcher{
		Source: sourceOf(*c.config.Inventory, client), Store: settings.Store, Copy: nodes.LastGood(client),
		Changed:  served.InventoryChanged,
		Rejected: served.InventoryRejected,
		Ready:    func() { cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) },
	}
	go watcher.Run(ctx)
	go served.Follow(ctx)
	return nil
}

// severalControlPlanes reports whether there may be: as long as Nodes are not known, there may.
func severalControlPlanes(informer cache.SharedIndexInformer) bool {
	n := 0
	for _, node := range objects.List[*corev1.Node](informer.GetStore()) {
		if metav1.HasLabel(node.ObjectMeta, v1alpha1.ControlPlaneLabel) {
			n++
		}
	}
	return n > 1 || !informer.HasSynced()
}

// serve lets controllers ask from now on.
func (c *Cloud) serve(served *nodes.Nodes, err error) error {
	if err != nil {
		return err
	}
	served.RegisterMetrics()
	c.nodes.Store(served)
	return nil
}

// ready returns who answers.
func (c *Cloud) ready() (*nodes.Nodes, error) {
	if served := c.nodes.Load(); served != nil {
		return served, nil
	}
	return nil, errors.New("look at Nodes: the provider has no client, or no informers, of the controller manager")
}

// InstanceExists answers whether a machine is there. On an error, upstream leaves the Node alone.
func (c *Cloud) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	served, err := c.ready()
	if err != nil {
		return true, err
	}
	return served.InstanceExists(ctx, node)
}

// InstanceShutdown answers whether the power of a machine is off.
func (c *Cloud) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	served, err := c.ready()
	if err != nil {
		return false, err
	}
	return served.InstanceShutdown(ctx, node)
}

// InstanceMetadata answers with identity, addresses and place of a machine.
func (c *Cloud) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	served, err := c.ready()
	if err != nil {
		return nil, err
	}
	return served.InstanceMetadata(ctx, node)
}

// InstancesV2 answers for every machine.
func (c *Cloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return c, true }

// Instances is not offered: InstancesV2 replaced it.
func (c *Cloud) Instances() (cloudprovider.Instances, bool) { return nil, false }

// Zones is not offered: InstancesV2 has zones.
func (c *Cloud) Zones() (cloudprovider.Zones, bool) { return nil, false }

// Clusters is not offered: no controller calls it.
func (c *Cloud) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

// ProviderName returns Name.
func (c *Cloud) ProviderName() string { return Name }

// HasClusterID says yes, since nothing here is shared between clusters, and
// controller managers in the style of upstream's sample refuse to start on no.
func (c *Cloud) HasClusterID() bool { return true }
