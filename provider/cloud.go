// Package provider is onprem, the cloud provider for machines that no cloud
// knows: it serves them as an inventory lists them, and without one as they
// present themselves through their kubelet.
//
// Start at New, which cmd/cloud-controller-manager registers under Name, and at
// instances.go, which answers what upstream's controllers ask about a Node;
// lifecycle.go decides whether a machine is gone.
//
// Reads: Nodes, through the informer of the controller manager, and an
// OnPremConfiguration (see Configuration). With an inventory, also that, the
// Leases of kubelets that are silent, and its own last good copy.
// Writes: Warning Events on Nodes. Upstream's controllers write the provider ID,
// the labels and the addresses that it returns. With an inventory, also labels and
// annotations of Nodes that follow it, and ConfigMap
// kube-system/ccmadm-machines-last-good.
// Running it twice: answers for a Node depend on the inventory, that Node and its
// peers only. A provider ID, once on the Node, is returned as it is for ever.
// It will not: say that a machine is gone or shut down which the inventory does
// not list so, balance load, set routes.
package provider

import (
	"context"
	"errors"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/provider/inventory"
)

// Name is what --cloud-provider says, and the scheme of every provider ID.
// Provider IDs are immutable: never change it.
const Name = inventory.Scheme

// clientName is the one under which upstream's node controllers write, so that
// --use-service-account-credentials needs no further ServiceAccount.
const clientName = "node-controller"

// Cloud is the onprem provider.
type Cloud struct {
	config   Configuration
	informer cache.SharedIndexInformer // of Nodes
	metrics  *metrics
	voice    *voice
	server   string // the API server's address

	// The rest is nil without an inventory.
	store     *inventory.Store
	machines  *machines
	lifecycle *lifecycle
	follower  *follower
	follow    func() // the inventory, from SetInformers on
}

// New makes the provider from an OnPremConfiguration; a nil reader means the
// defaults. It is a cloudprovider.Factory.
func New(config io.Reader) (cloudprovider.Interface, error) {
	c, err := ReadConfiguration(config)
	if err != nil {
		return nil, err
	}
	cloud := &Cloud{config: c}
	if c.Inventory == nil {
		cloud.metrics = newMetrics(nil, time.Now)
		return cloud, nil
	}
	limits := inventory.Limits{Site: c.Site, MaxLossPercent: c.Inventory.MaxLossPercent}
	cloud.store = inventory.NewStore(limits, time.Now)
	cloud.metrics = newMetrics(cloud.store, time.Now)
	cloud.machines = newMachines(cloud.store, cloud.metrics)
	cloud.follower = newFollower(cloud.machines, cloud.nodes)
	cloud.lifecycle = newLifecycle(*c.Inventory, cloud.store, cloud.metrics, time.Now)
	cloud.lifecycle.nodes = cloud.nodes
	return cloud, nil
}

var (
	_ cloudprovider.Factory      = New
	_ cloudprovider.Interface    = (*Cloud)(nil)
	_ cloudprovider.InformerUser = (*Cloud)(nil)
)

// Initialize starts the recorder of Events. Upstream calls it in the leader only,
// and SetInformers after it, which is where the inventory begins to be followed:
// who follows it looks at Nodes.
func (c *Cloud) Initialize(clients cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
	ctx := wait.ContextForChannel(stop)
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	c.voice = newVoice(broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: Name}), time.Now)
	c.metrics.register()

	client, err := clients.Client(clientName)
	if err != nil {
		klog.ErrorS(err, "No Events will be written, no inventory read", "provider", Name)
		return
	}
	if config, err := clients.Config(clientName); err == nil {
		c.server = config.Host
	}
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	if c.store != nil {
		c.follow = func() { c.startInventory(ctx, client) }
	}
}

// startInventory starts reading it, and what acts on it.
func (c *Cloud) startInventory(ctx context.Context, client kubernetes.Interface) {
	c.lifecycle.started = time.Now()
	c.lifecycle.sign = signOfLife(client)
	c.lifecycle.warn = c.warn
	c.follower.client = client
	w, err := newWatcher(c, client)
	if err != nil {
		klog.ErrorS(err, "No inventory will be read: every new Node stays tainted", "provider", Name)
		return
	}
	go w.run(ctx)
	go c.follower.run(ctx)
}

// SetInformers takes the Nodes from the informers of the controller manager, and
// starts to follow the inventory.
func (c *Cloud) SetInformers(factory informers.SharedInformerFactory) {
	c.informer = factory.Core().V1().Nodes().Informer()
	if err := c.informer.AddIndexers(indexers()); err != nil {
		klog.ErrorS(err, "No Node will be given an identity", "provider", Name)
	}
	if c.follow != nil {
		c.follow()
	}
}

// InstancesV2 answers for every machine.
func (c *Cloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return c.instances(), true }

// Instances serves callers that do not know InstancesV2.
func (c *Cloud) Instances() (cloudprovider.Instances, bool) { return c.legacy(), true }

// Zones serves them, too.
func (c *Cloud) Zones() (cloudprovider.Zones, bool) { return c.legacy(), true }

// Clusters serves them, too.
func (c *Cloud) Clusters() (cloudprovider.Clusters, bool) { return c.legacy(), true }

func (c *Cloud) instances() *instances {
	i := &instances{
		config: c.config, nodes: c.nodes, warn: c.warn, metrics: c.metrics, machines: c.machines, lifecycle: c.lifecycle,
	}
	if c.follower != nil {
		i.prepare = c.follower.prepare
	}
	return i
}

func (c *Cloud) legacy() *legacy {
	return &legacy{instances: c.instances(), site: c.site, master: func() string { return c.server }}
}

// site is that of new provider IDs.
func (c *Cloud) site() string {
	if c.store != nil {
		if i := c.store.Status().Inventory; i != nil {
			return i.Metadata.Site
		}
	}
	return c.config.Site
}

// LoadBalancer is not served: there is nothing here that could carry traffic.
func (c *Cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return nil, false }

// Routes is not served: routes between machines belong to the network add-on.
func (c *Cloud) Routes() (cloudprovider.Routes, bool) { return nil, false }

// ProviderName returns Name.
func (c *Cloud) ProviderName() string { return Name }

// HasClusterID says yes, since nothing here is shared between clusters, and
// controller managers in the style of upstream's sample refuse to start on no.
func (c *Cloud) HasClusterID() bool { return true }

// nodes returns the Nodes, once the informer has seen all of them: an empty cache
// would make every identity look unique.
func (c *Cloud) nodes(ctx context.Context) (cache.Indexer, error) {
	if c.informer == nil {
		return nil, errors.New("look at Nodes: informers are not set")
	}
	if !cache.WaitForCacheSync(ctx.Done(), c.informer.HasSynced) {
		return nil, context.Cause(ctx)
	}
	return c.informer.GetIndexer(), nil
}

// warn writes a Warning on the Node, unless it was said just now.
func (c *Cloud) warn(node *corev1.Node, reason, message string) { c.voice.warn(node, reason, message) }
