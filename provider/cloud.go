// Package provider is onprem, the cloud provider for machines that no cloud
// knows: it serves them as they present themselves through their kubelet.
//
// Start at New, which cmd/cloud-controller-manager registers under Name, and at
// instances.go, which answers what upstream's controllers ask about a Node.
//
// Reads: Nodes, through the informer of the controller manager, and an
// OnPremConfiguration (see Configuration).
// Writes: nothing but Warning Events on Nodes. Upstream's controllers write the
// provider ID, the labels and the addresses that it returns.
// Running it twice: answers for a Node depend on that Node and its peers only. A
// provider ID, once on the Node, is returned as it is for ever.
// It will not: say that a machine is gone or shut down, balance load, set routes.
package provider

import (
	"context"
	"errors"
	"io"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
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
	recorder record.EventRecorder
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
)

// Initialize starts the recorder of Events. Upstream calls SetInformers after
// it, so that nothing here may wait for an informer.
func (c *Cloud) Initialize(clients cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
	broadcaster := record.NewBroadcaster(
		record.WithContext(wait.ContextForChannel(stop)),
		// The node controller asks again with every change of a Node: one
		// Event per Node and five minutes tells as much.
		record.WithCorrelatorOptions(record.CorrelatorOptions{BurstSize: 1, QPS: 1. / 300}))
	c.recorder = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: Name})

	client, err := clients.Client(clientName)
	if err != nil {
		klog.ErrorS(err, "No Events will be written", "provider", Name)
		return
	}
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
}

// SetInformers takes the Nodes from the informers of the controller manager.
func (c *Cloud) SetInformers(factory informers.SharedInformerFactory) {
	c.informer = factory.Core().V1().Nodes().Informer()
	if err := c.informer.AddIndexers(indexers()); err != nil {
		klog.ErrorS(err, "No Node will be given an identity", "provider", Name)
	}
}

// InstancesV2 answers for every machine.
func (c *Cloud) InstancesV2() (cloudprovider.InstancesV2, bool) {
	return &instances{config: c.config, nodes: c.nodes, warn: c.warn}, true
}

// Instances is not served: InstancesV2 replaced it.
func (c *Cloud) Instances() (cloudprovider.Instances, bool) { return nil, false }

// Zones is not served: InstancesV2 replaced it.
func (c *Cloud) Zones() (cloudprovider.Zones, bool) { return nil, false }

// Clusters is not served: no controller of upstream's asks for it.
func (c *Cloud) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

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

// warn writes a Warning on the Node.
func (c *Cloud) warn(node *corev1.Node, reason, message string) {
	c.recorder.Event(node, corev1.EventTypeWarning, reason, message)
}
