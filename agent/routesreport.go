package agent

import (
	"context"
	"fmt"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// routesPause is the shortest time between two reports of routes, which are long in a large cluster, and which all
// agents write at once when a Node comes.
const routesPause = time.Second

// routesReporter writes the NodeRoutes of its own Node when they have changed, and never else. Whether the agent lives is
// in its NodeAgent.
type routesReporter struct {
	node   string
	client *objects.NodeRoutes
	nodes  cache.SharedIndexInformer
	// current are the routes that are to be reported.
	current func() ([]v1alpha1.AgentRoute, []v1alpha1.RouteProblem)

	own     cache.SharedIndexInformer // of this one object
	changes chan struct{}
	gone    chan struct{}
	last    *v1alpha1.NodeRoutes // as the API server returned it
}

func newRoutesReporter(config *rest.Config, node string, nodes cache.SharedIndexInformer) (*routesReporter, error) {
	client, err := objects.New(config)
	if err != nil {
		return nil, err
	}
	r := &routesReporter{
		node: node, client: client.NodeRoutes, nodes: nodes,
		changes: make(chan struct{}, 1), gone: make(chan struct{}, 1),
	}
	r.own = objects.Informer(oneRoutes{client.NodeRoutes, node}, &v1alpha1.NodeRoutes{})
	_, err = r.own.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(any) { ask(r.gone) }})
	if err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	return r, nil
}

// changed asks for a report soon. It does not wait.
func (r *routesReporter) changed() { ask(r.changes) }

// run reports until ctx is done.
func (r *routesReporter) run(ctx context.Context) {
	if !cache.WaitForCacheSync(ctx.Done(), r.nodes.HasSynced) {
		return
	}
	go r.own.RunWithContext(ctx)
	var retry retries
	for {
		err := r.write(ctx)
		pause, again := retry.after(err), (<-chan time.Time)(nil)
		if err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "Failed to report the routes of this Node; retrying", "after", pause)
			again = time.After(pause)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(routesPause):
		}
		select {
		case <-ctx.Done():
			return
		case <-again:
		case <-r.changes:
		case <-r.gone:
			r.last = nil
		}
	}
}

// write makes the object say what there is. It writes nothing where it does.
func (r *routesReporter) write(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	routes, problems := r.current()
	if r.last == nil {
		found, err := r.client.Get(ctx, r.node, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return r.create(ctx, routes, problems)
		}
		if err != nil {
			return fmt.Errorf("get NodeRoutes/%s: %w", r.node, err)
		}
		r.last = found
	}
	if same(r.last.Routes, routes) && same(r.last.Problems, problems) {
		return nil
	}
	next := &v1alpha1.NodeRoutes{ObjectMeta: *r.last.ObjectMeta.DeepCopy(), Routes: routes, Problems: problems}
	written, err := r.client.Update(ctx, next, metav1.UpdateOptions{})
	if err != nil {
		r.last = nil // it has gone, or another program has written it, or this was written and nobody has said so
		return fmt.Errorf("update NodeRoutes/%s: %w", r.node, err)
	}
	r.last = written
	return nil
}

func (r *routesReporter) create(ctx context.Context, routes []v1alpha1.AgentRoute, problems []v1alpha1.RouteProblem) error {
	meta, err := ownedByNode(r.nodes, r.node)
	if err != nil {
		return fmt.Errorf("create NodeRoutes/%s: %w", r.node, err)
	}
	made, err := r.client.Create(ctx, &v1alpha1.NodeRoutes{ObjectMeta: meta, Routes: routes, Problems: problems},
		metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create NodeRoutes/%s: %w", r.node, err)
	}
	r.last = made
	return nil
}

// same takes none for none, whether it is nil or not.
func same[T any](a, b []T) bool { return len(a) == 0 && len(b) == 0 || reflect.DeepEqual(a, b) }

// oneRoutes lists and watches the object of one name.
type oneRoutes struct {
	*objects.NodeRoutes
	name string
}

func (o oneRoutes) only(options metav1.ListOptions) metav1.ListOptions {
	options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, o.name).String()
	return options
}

// List returns it, or none.
func (o oneRoutes) List(ctx context.Context, options metav1.ListOptions) (*v1alpha1.NodeRoutesList, error) {
	return o.NodeRoutes.List(ctx, o.only(options))
}

// Watch follows it.
func (o oneRoutes) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return o.NodeRoutes.Watch(ctx, o.only(options))
}
