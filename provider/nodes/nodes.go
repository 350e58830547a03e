// Package nodes is what the provider onprem knows of the Nodes of a cluster: which machine each is, where it stands,
// and whether it is gone.
//
// Start at [New], which puts everything together, and at instances.go, which answers what upstream's controllers ask
// about a Node. [NewPlan] asks the same of the same code, and writes nothing.
//
// From an inventory to a label: inventory.Watcher reads the document, its Store accepts it, and [Nodes.Follow] is
// woken; follower.follow takes each Node, machines.find its machine (inventory.Match, rule by rule), difference what
// the two differ in, and follower.patch writes that. A Node that is new goes by instances.InstanceMetadata, which
// upstream's node controller asks, and whose answer it writes.
//
// From an inventory to a deletion: upstream's lifecycle controller asks about a NotReady Node, and lifecycle.exists
// answers: evidence gathers what the inventory says of it, inventory.GuardIdentity refuses what needs no question,
// heartbeatOf asks whether its kubelet still writes, decide asks the whole inventory.Guard, and announceOrDelete first
// announces in an Event, then, after deletionDelay, says no. Upstream deletes the Node.
//
// Reads: Nodes, through the informer that it is given; with an inventory, also the store, and Leases of kubelets.
// Writes: Events on Nodes; with an inventory, also labels, annotations and taints of Nodes. Upstream writes the
// provider ID, the labels and the addresses that it is answered.
// Running it twice: answers depend on the inventory, the Node and its peers only. A provider ID, once on the Node, is
// returned as it is for ever. What was announced is forgotten when the process ends: then every deletion is announced
// again. Recent deletions are kept with the last good inventory.
// It will not: say that a machine is gone or shut down which the inventory does not list so.
package nodes

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/inventory"
)

// Settings are what Nodes are looked after with.
type Settings struct {
	Configuration config.OnPremConfiguration
	// Store holds the inventory; nil where the configuration names none.
	Store    *inventory.Store
	Client   kubernetes.Interface
	Informer cache.SharedIndexInformer // of Nodes
	Recorder record.EventRecorder
	Now      func() time.Time
}

// Nodes answers for those of a cluster.
type Nodes struct {
	*instances

	store    *inventory.Store
	events   *events
	follower *follower // nil without an inventory
}

// New puts together what answers. It counts as the start of this process's leadership.
func New(s Settings) (*Nodes, error) {
	if _, indexed := s.Informer.GetIndexer().GetIndexers()[identityIndex]; !indexed {
		if err := s.Informer.AddIndexers(indexers()); err != nil {
			return nil, fmt.Errorf("index Nodes: %w", err)
		}
	}
	index := synced(s.Informer)
	m := newMetrics(s.Store, s.Now)
	m.watch(s.Informer.GetStore(), s.Now)
	n := &Nodes{store: s.Store, events: newEvents(s.Recorder, s.Now)}
	n.instances = &instances{config: s.Configuration, nodes: index, warn: n.events.warn, metrics: m}
	if s.Store != nil {
		c := cluster{index, heartbeatOf(s.Client), n.events.warn, LastGood(s.Client)}
		n.machines = newMachines(s.Store, m)
		n.follower = newFollower(s.Client, n.machines, c)
		n.prepare = n.follower.prepare
		n.lifecycle = newLifecycle(*s.Configuration.Inventory, s.Store, m, s.Now, c)
	}
	watch := cache.ResourceEventHandlerDetailedFuncs{AddFunc: n.registered, UpdateFunc: n.updated}
	if _, err := s.Informer.AddEventHandler(watch); err != nil {
		return nil, fmt.Errorf("watch Nodes register: %w", err)
	}
	return n, nil
}

// registered tells of a Node that comes with a provider ID and evades initialization, and has one of ours proven. Of a Node that was
// there before this process led, that is not known: one that was initialized looks the same.
func (n *Nodes) registered(object any, before bool) {
	node, ok := object.(*corev1.Node)
	if !ok || before || uninitialized(node) || node.Spec.ProviderID == "" {
		return
	}
	_, _, ours := inventory.Split(node.Spec.ProviderID)
	if !ours && !n.holds() {
		return // another provider's, which is let in
	}
	if ours && n.machines != nil {
		n.machines.comes(node)
	}
	n.events.warn(node, finding.Untainted.Kind().Reason, fmt.Sprintf(
		"it got provider ID %s without taint %s, so pods could be scheduled before it was checked",
		node.Spec.ProviderID, v1alpha1.UninitializedTaint))
}

// updated treats as a registration what comes as an update: a Node that was deleted and registered again while the watch was away, and a
// provider ID that a Node without the taint gets afterwards. A kubelet may write it, and upstream does so only where it removes the taint.
func (n *Nodes) updated(before, after any) {
	old, known := before.(*corev1.Node)
	node, ok := after.(*corev1.Node)
	if known && ok && (old.UID != node.UID || old.Spec.ProviderID == "" && !uninitialized(old)) {
		n.registered(node, false)
	}
}

// holds reports whether Nodes that are not listed are to stay tainted.
func (n *Nodes) holds() bool {
	if n.store == nil {
		return false
	}
	i := n.store.Status().Inventory
	return i != nil && i.Policy.UnknownNodes == config.HoldUnknown
}

// synced returns the Nodes, once the informer has seen all of them: an empty cache
// would make every identity look unique.
func synced(informer cache.SharedIndexInformer) func(context.Context) (cache.Indexer, error) {
	return func(ctx context.Context) (cache.Indexer, error) {
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return nil, context.Cause(ctx)
		}
		return informer.GetIndexer(), nil
	}
}

// LastGood is where the last good inventory is.
func LastGood(client kubernetes.Interface) inventory.Copy {
	return inventory.Copy{Client: client, Namespace: v1alpha1.Namespace, Name: v1alpha1.LastGoodMachinesName}
}

// RegisterMetrics shows them at /metrics.
func (n *Nodes) RegisterMetrics() { n.metrics.register() }

// Follow keeps Nodes as the inventory lists them, until ctx is done. Without one there is nothing to do.
func (n *Nodes) Follow(ctx context.Context) {
	if n.follower != nil {
		n.follower.run(ctx)
	}
}

// InventoryChanged lets Nodes follow it now.
func (n *Nodes) InventoryChanged() { n.follower.wake() }

// InventoryRejected counts a reading that was rejected, and tells why in an Event on the last good copy.
func (n *Nodes) InventoryRejected(rejection *inventory.Rejection) {
	n.metrics.rejected.WithLabelValues(string(rejection.Reason)).Inc()
	if n.events.due(types.UID(v1alpha1.LastGoodMachinesName), string(rejection.Reason)) {
		klog.ErrorS(rejection, "Inventory rejected, the last good one stays")
		on := &corev1.ObjectReference{
			APIVersion: "v1", Kind: "ConfigMap", Namespace: v1alpha1.Namespace,
			Name: v1alpha1.LastGoodMachinesName,
		}
		n.events.recorder.Event(on, corev1.EventTypeWarning, "InventoryRejected",
			"the last good inventory stays in use, and no Node is deleted: "+rejection.Error())
	}
}
