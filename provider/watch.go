package provider

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/provider/inventory"
)

// watcher keeps the store up to date, and tells when it cannot.
type watcher struct {
	source  inventory.Source
	store   *inventory.Store
	copy    inventory.Copy
	voice   *voice
	metrics *metrics
	changed func()

	kept  []byte // document of the copy
	state string // of the copy
	stale inventory.Reason
}

// run follows the source until ctx is done. First it takes the copy of the
// process before, so that Nodes can be served if the source is away.
func (w *watcher) run(ctx context.Context) {
	document, err := w.copy.Load(ctx)
	if err == nil && document != nil {
		err = w.store.Restore(document)
	}
	if err != nil {
		klog.ErrorS(err, "No last good inventory to start with")
	}
	if w.store.Status().Inventory != nil {
		w.kept = document
		w.changed()
	}
	w.source.Run(ctx, func(document []byte, err error) { w.take(ctx, document, err) })
}

// take offers a reading to the store.
func (w *watcher) take(ctx context.Context, document []byte, err error) {
	changed, rejection := w.store.Offer(document, err)
	state := "Confirmed"
	if rejection == nil {
		w.stale = ""
	} else {
		state = w.reject(rejection)
	}
	status := w.store.Status()
	if changed {
		klog.InfoS("Inventory read", "serial", status.Inventory.Metadata.Serial, "machines", len(status.Inventory.Machines))
		w.changed()
	}
	w.keep(ctx, status.Document, state)
}

// reject tells why a reading was rejected, and returns the state of the copy. The
// words may differ each time, as port numbers do: only a new reason makes a new state.
func (w *watcher) reject(rejection *inventory.Rejection) string {
	w.metrics.rejected.WithLabelValues(string(rejection.Reason)).Inc()
	if w.voice.fresh(types.UID(w.copy.Name), string(rejection.Reason)) {
		klog.ErrorS(rejection, "Inventory rejected, the last good one stays")
		w.voice.recorder.Event(w.reference(), corev1.EventTypeWarning, "InventoryRejected",
			"the last good inventory stays, and no Node is deleted: "+rejection.Error())
	}
	if w.stale == rejection.Reason {
		return w.state
	}
	w.stale = rejection.Reason
	return "Stale: " + rejection.Error()
}

// keep saves what is good, when that or its state has changed.
func (w *watcher) keep(ctx context.Context, document []byte, state string) {
	same := len(document) == len(w.kept) && string(document) == string(w.kept)
	if document == nil || same && state == w.state {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := w.copy.Save(ctx, document, state); err != nil {
		klog.ErrorS(err, "The last good inventory is not kept")
		return
	}
	w.kept, w.state = document, state
}

// reference is what Events about the inventory are on.
func (w *watcher) reference() *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: w.copy.Namespace, Name: w.copy.Name}
}

// newWatcher opens the source.
func newWatcher(c *Cloud, client kubernetes.Interface) (*watcher, error) {
	source, err := c.config.Inventory.source(client)
	if err != nil {
		return nil, err
	}
	return &watcher{
		source: source, store: c.store, voice: c.voice, metrics: c.metrics, changed: c.follower.wake,
		copy: inventory.Copy{Client: client, Namespace: inventoryNamespace, Name: lastGoodName},
	}, nil
}
