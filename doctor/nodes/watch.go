package nodes

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	coordinationinformers "k8s.io/client-go/informers/coordination/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// watcher keeps Nodes and the Lease up to date, as far as one may see them.
type watcher struct {
	changed <-chan struct{}
	stop    func()
	leader  leadership

	nodes, leases cache.SharedInformer
	errors        *lastErrors
}

// watchNodes starts a watch. One node alone is watched by its name: a kubelet's own credentials allow no more.
func watchNodes(ctx context.Context, c kubernetes.Interface, names []string, leaseName string) (*watcher, error) {
	ctx, cancel := context.WithCancel(quietly(ctx))
	changed := make(chan struct{}, 1)
	poke := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	w := &watcher{changed: changed, leader: leadership{name: leaseName}, errors: &lastErrors{poke: poke}}
	w.nodes = coreinformers.NewFilteredNodeInformer(c, 0, cache.Indexers{}, func(o *metav1.ListOptions) {
		if len(names) == 1 {
			o.FieldSelector = byName(names[0])
		}
	})
	w.leases = coordinationinformers.NewFilteredLeaseInformer(
		c,
		v1alpha1.Namespace,
		0,
		cache.Indexers{},
		func(o *metav1.ListOptions) {
			o.FieldSelector = byName(leaseName)
		},
	)
	onChange := cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { poke() }, UpdateFunc: func(any, any) { poke() }, DeleteFunc: func(any) { poke() },
	}
	for informer, onError := range map[cache.SharedInformer]func(error){w.nodes: w.errors.set, w.leases: func(error) {}} {
		if _, err := informer.AddEventHandler(onChange); err != nil {
			cancel()
			return nil, fmt.Errorf("watch nodes: %w", err)
		}
		if err := informer.SetWatchErrorHandlerWithContext(
			func(_ context.Context, _ *cache.Reflector, err error) { onError(err) },
		); err != nil {
			cancel()
			return nil, fmt.Errorf("watch nodes: %w", err)
		}
		go informer.RunWithContext(ctx)
	}
	go func() {
		select {
		case <-w.nodes.HasSyncedChecker().Done():
			poke() // an empty list brings no event
		case <-ctx.Done():
		}
	}()
	w.stop = cancel // and no more: an informer that cannot connect first sleeps out its pause
	return w, nil
}

// quietly keeps the client's own log lines off the screen, unless they were asked for: what matters comes back as an
// error.
func quietly(ctx context.Context) context.Context {
	if klog.V(1).Enabled() {
		return ctx
	}
	return klog.NewContext(ctx, logr.Discard())
}

func byName(name string) string {
	return fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
}

// statuses returns one for each name, or for each machine there is. Nothing is known before the first list has arrived.
func (w *watcher) statuses(names []string, now time.Time) []Status {
	if !w.nodes.HasSynced() {
		return nil
	}
	if len(names) == 0 {
		names = slices.DeleteFunc(w.nodes.GetStore().ListKeys(), func(name string) bool {
			n := w.node(name)
			return n != nil && IsVirtual(n)
		})
		slices.SortFunc(names, strings.Compare)
	}
	w.leader.see(w.lease(), now)
	var list []Status
	for _, name := range names {
		list = append(list, StatusOf(name, w.node(name), w.leader.held(now), now))
	}
	return list
}

func (w *watcher) node(name string) *corev1.Node {
	node, _ := get(w.nodes, name).(*corev1.Node)
	return node
}

func (w *watcher) lease() *coordinationv1.Lease {
	lease, _ := get(w.leases, v1alpha1.Namespace+"/"+w.leader.name).(*coordinationv1.Lease)
	return lease
}

func get(informer cache.SharedInformer, key string) any {
	o, _, err := informer.GetStore().GetByKey(key)
	if err != nil {
		return nil // an in-memory store has no errors
	}
	return o
}

// hopeless returns the error that waiting does not cure.
func (w *watcher) hopeless() error {
	err := w.lastError()
	var unknownCA x509.UnknownAuthorityError
	if !w.nodes.HasSynced() &&
		(apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || errors.As(err, &unknownCA)) {
		return err
	}
	return nil
}

func (w *watcher) lastError() error {
	w.errors.mu.Lock()
	defer w.errors.mu.Unlock()
	return w.errors.last
}

// lastErrors keeps what the watch of nodes complains about; it goes on by itself.
type lastErrors struct {
	poke func()

	mu   sync.Mutex
	last error
}

func (l *lastErrors) set(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = err
	l.poke()
}
