package agent

import (
	"context"
	"fmt"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/provider/objects"
)

// reported is an object of a kind that agents write beside their NodeAgent.
type reported interface {
	comparable
	metav1.Object
	runtime.Object
}

// writer is what writes objects of a kind.
type writer[O reported] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (O, error)
	Create(ctx context.Context, object O, options metav1.CreateOptions) (O, error)
	Update(ctx context.Context, object O, options metav1.UpdateOptions) (O, error)
}

// ownObject keeps the object of its own Node of one kind as it should be. It has what is long, and what other agents do not watch. It is
// written when it has changed, and never else: whether the agent is alive is in its NodeAgent or NodeAgentLease.
type ownObject[O reported] struct {
	kind, node string
	client     writer[O]
	nodes      cache.SharedIndexInformer
	// current is the object as it should be, without its name; false: it stays as it is.
	current func() (O, bool)
	// same reports whether two objects say the same.
	same func(a, b O) bool
	// pause is the shortest time between two writes, of which the last has written the object.
	pause func(O) time.Duration
	// kept is told that the API server has the object as it should be, or why not.
	kept func(error)

	own     cache.SharedIndexInformer // of this one object
	changes chan struct{}
	gone    chan struct{}
	last    O // as the API server returned it
}

// newOwnObject makes one for a kind that client reads and writes.
func newOwnObject[O reported, L runtime.Object](node string, nodes cache.SharedIndexInformer, example O, client interface {
	writer[O]
	objects.Lister[L]
},
) (*ownObject[O], error) {
	o := &ownObject[O]{
		kind: reflect.TypeOf(example).Elem().Name(), node: node, client: client, nodes: nodes, kept: func(error) {},
		changes: make(chan struct{}, 1), gone: make(chan struct{}, 1),
	}
	o.own = objects.Informer(oneOf[L]{client, node}, example)
	_, err := o.own.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { o.changed() }, UpdateFunc: func(any, any) { o.changed() }, DeleteFunc: func(any) { ask(o.gone) },
	})
	if err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	return o, nil
}

// changed asks for a report soon. It does not wait.
func (o *ownObject[O]) changed() { ask(o.changes) }

// run reports until ctx is done.
func (o *ownObject[O]) run(ctx context.Context) {
	if !cache.WaitForCacheSync(ctx.Done(), o.nodes.HasSynced) {
		return
	}
	defer o.finish(ctx)
	watched := false
	var retry retries
	var none O
	for {
		object, wanted := o.current()
		var err error
		if wanted {
			if !watched {
				go o.own.RunWithContext(ctx)
				watched = true
			}
			if o.overwritten() {
				o.last = none
			}
			err = o.write(ctx, object)
			o.kept(err)
		}
		pause, again := retry.after(err), (<-chan time.Time)(nil)
		if err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "Failed to report; retrying", "kind", o.kind, "after", pause)
			again = time.After(pause)
			pause = reportRetry
		} else {
			pause = gather
			if wanted {
				pause = o.pause(object)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		select {
		case <-ctx.Done():
			return
		case <-again:
		case <-o.changes:
		case <-o.gone:
			o.last = none
		}
	}
}

// finish writes what the API server does not have when the agent is told to end, such as what it handed over: a change that no write has
// followed yet, or one whose write has failed, or was cut short by the end.
func (o *ownObject[O]) finish(ctx context.Context) {
	object, wanted := o.current()
	if !wanted {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportRetry)
	defer cancel()
	if err := o.write(ctx, object); err != nil {
		klog.ErrorS(err, "Failed to report at the end", "kind", o.kind)
	}
}

// overwritten reports whether the API server has another object than this agent has written, such as one of a backup.
func (o *ownObject[O]) overwritten() bool {
	var none O
	object, there, _ := o.own.GetStore().GetByKey(o.node) // a store of client-go has no error here
	seen, is := object.(O)
	return there && is && o.last != none && (seen.GetUID() != o.last.GetUID() || seen.GetResourceVersion() != o.last.GetResourceVersion())
}

// write makes the object say what it should. It writes nothing where it does.
func (o *ownObject[O]) write(ctx context.Context, object O) error {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	var none O
	if o.last == none {
		found, err := o.client.Get(ctx, o.node, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return o.create(ctx, object)
		}
		if err != nil {
			return fmt.Errorf("get %s/%s: %w", o.kind, o.node, err)
		}
		o.last = found
	}
	if o.same(o.last, object) {
		return nil
	}
	object.SetName(o.node)
	object.SetUID(o.last.GetUID())
	object.SetResourceVersion(o.last.GetResourceVersion())
	object.SetOwnerReferences(o.last.GetOwnerReferences())
	object.SetLabels(o.last.GetLabels())
	object.SetAnnotations(o.last.GetAnnotations())
	written, err := o.client.Update(ctx, object, metav1.UpdateOptions{})
	if err != nil {
		o.last = none // it has gone, or another program has written it, or this was written and no answer came
		return fmt.Errorf("update %s/%s: %w", o.kind, o.node, err)
	}
	o.last = written
	return nil
}

func (o *ownObject[O]) create(ctx context.Context, object O) error {
	meta, err := ownedByNode(o.nodes, o.node)
	if err != nil {
		return fmt.Errorf("create %s/%s: %w", o.kind, o.node, err)
	}
	object.SetName(meta.Name)
	object.SetOwnerReferences(meta.OwnerReferences)
	made, err := o.client.Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create %s/%s: %w", o.kind, o.node, err)
	}
	o.last = made
	return nil
}

// same takes none for none, whether it is nil or not.
func same[T any](a, b []T) bool { return len(a) == 0 && len(b) == 0 || reflect.DeepEqual(a, b) }

// oneOf lists and watches the object of one name.
type oneOf[L runtime.Object] struct {
	all  objects.Lister[L]
	name string
}

func (o oneOf[L]) only(options metav1.ListOptions) metav1.ListOptions {
	options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, o.name).String()
	return options
}

// List returns it, or none.
func (o oneOf[L]) List(ctx context.Context, options metav1.ListOptions) (L, error) {
	return o.all.List(ctx, o.only(options))
}

// Watch follows it.
func (o oneOf[L]) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return o.all.Watch(ctx, o.only(options))
}
