package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

// call is something that a controller asked the provider.
type call struct {
	method   string
	object   string // name of the Node or Service
	answered bool
	err      error
}

// observer stands between the controllers and the provider and keeps what went by.
type observer struct {
	cloudprovider.Interface

	mu      sync.Mutex
	calls   []*call
	changed []error // objects of the informers' caches that the provider wrote to
	nilMeta error   // (nil, nil) about a Node that is initialized
}

func observe(p cloudprovider.Interface) *observer { return &observer{Interface: p} }

// asks notes a question, and returns what notes its answer.
func (o *observer) asks(method, object string) (answered func(error)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := &call{method: method, object: object}
	o.calls = append(o.calls, c)
	return func(err error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		c.answered, c.err = true, err
	}
}

// count returns how often a method was asked about an object.
func (o *observer) count(method, object string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, c := range o.calls {
		if c.method == method && c.object == object {
			n++
		}
	}
	return n
}

// order returns the methods that were asked about an object, without repetitions in a row.
func (o *observer) order(object string, of ...string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var methods []string
	for _, c := range o.calls {
		if c.object == object && slices.Contains(of, c.method) {
			methods = append(methods, c.method)
		}
	}
	return slices.Compact(methods)
}

// lend returns a copy of an object for the provider, and a function which notes whether it was written to. With the
// object itself, a provider that writes would race with everybody who reads the caches of the informers.
func lend[T interface{ DeepCopy() T }](o *observer, method string, object T) (lent T, back func()) {
	lent = object.DeepCopy()
	return lent, func() {
		if !equality.Semantic.DeepEqual(object, lent) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.changed = append(o.changed, fmt.Errorf("%s wrote to the %T that it was given", method, object))
		}
	}
}

// lendAll does so with Nodes.
func lendAll(o *observer, method string, nodes []*corev1.Node) (lent []*corev1.Node, back func()) {
	var backs []func()
	for _, node := range nodes {
		n, back := lend(o, method, node)
		lent, backs = append(lent, n), append(backs, back)
	}
	return lent, func() {
		for _, back := range backs {
			back()
		}
	}
}

// InstancesV2 observes the provider's.
func (o *observer) InstancesV2() (cloudprovider.InstancesV2, bool) {
	i, ok := o.Interface.InstancesV2()
	if !ok {
		return nil, false
	}
	return &observedInstances{i, o}, true
}

// Instances observes what decides about deletion.
func (o *observer) Instances() (cloudprovider.Instances, bool) {
	i, ok := o.Interface.Instances()
	if !ok {
		return nil, false
	}
	return &observedInstancesV1{i, o}, true
}

type observedInstances struct {
	cloudprovider.InstancesV2
	o *observer
}

func (i *observedInstances) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	node, back := lend(i.o, "InstanceExists", node)
	defer back()
	answered := i.o.asks("InstanceExists", node.Name)
	exists, err := i.InstancesV2.InstanceExists(ctx, node)
	answered(err)
	return exists, err
}

func (i *observedInstances) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	node, back := lend(i.o, "InstanceShutdown", node)
	defer back()
	answered := i.o.asks("InstanceShutdown", node.Name)
	off, err := i.InstancesV2.InstanceShutdown(ctx, node)
	answered(err)
	return off, err
}

// errNilMetadata stands in for (nil, nil) about an initialized Node, at which the node controller would panic, and end
// the test with it.
var errNilMetadata = errors.New("InstanceMetadata returned (nil, nil) for an initialized Node")

func (i *observedInstances) InstanceMetadata(
	ctx context.Context, node *corev1.Node,
) (*cloudprovider.InstanceMetadata, error) {
	node, back := lend(i.o, "InstanceMetadata", node)
	defer back()
	answered := i.o.asks("InstanceMetadata", node.Name)
	metadata, err := i.InstancesV2.InstanceMetadata(ctx, node)
	if metadata == nil && err == nil && !tainted(node, cloudproviderapi.TaintExternalCloudProvider) {
		err = fmt.Errorf("ask about Node/%s: %w", node.Name, errNilMetadata)
		i.o.mu.Lock()
		i.o.nilMeta = err
		i.o.mu.Unlock()
	}
	answered(err)
	return metadata, err
}

// observedInstancesV1 counts: objects are not handed over here.
type observedInstancesV1 struct {
	cloudprovider.Instances
	o *observer
}

func (i *observedInstancesV1) InstanceExistsByProviderID(ctx context.Context, id string) (bool, error) {
	answered := i.o.asks("InstanceExistsByProviderID", "")
	exists, err := i.Instances.InstanceExistsByProviderID(ctx, id)
	answered(err)
	return exists, err
}

// tainted reports whether a Node has a taint of that key.
func tainted(node *corev1.Node, key string) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}

// written returns an error if the provider wrote to what it was given.
func (o *observer) written() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.changed) == 0 {
		return nil
	}
	return o.changed[0]
}

// succeeded returns how often a method answered about an object without error.
func (o *observer) succeeded(method, object string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, c := range o.calls {
		if c.method == method && c.object == object && c.answered && c.err == nil {
			n++
		}
	}
	return n
}

// errNone is the error of a method that had none.
var errNone = errors.New("none")

// lastError returns the last error that a method gave about an object.
func (o *observer) lastError(method, object string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range slices.Backward(o.calls) {
		if c.method == method && c.object == object && c.err != nil {
			return c.err
		}
	}
	return errNone
}
