package main

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"
)

const (
	// eventWriters is how many Events are being written at a time. Upstream's recorder writes one after the other, and
	// drops what comes while 1,000 wait: of 2,000 Nodes at once 860 stayed without theirs.
	eventWriters = 8

	// maxEvents wait; with more, upstream's recorder has to.
	maxEvents = 1 << 16
)

// eventQueue writes Events beside the controllers, in no order.
type eventQueue chan queuedEvent

type queuedEvent struct {
	client typedcorev1.EventInterface
	event  *corev1.Event
}

// run writes until ctx is done. What waits then is lost: another program leads.
func (q eventQueue) run(ctx context.Context) {
	for range eventWriters {
		go func() {
			for {
				select {
				case <-ctx.Done():
					return
				case e := <-q:
					e.write(ctx)
				}
			}
		}()
	}
}

// write tries again, for about three minutes, as long as the API server does not answer.
func (e queuedEvent) write(ctx context.Context) {
	backoff := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 12, Cap: time.Minute}
	var last error
	err := wait.ExponentialBackoffWithContext(ctx, backoff, func(ctx context.Context) (bool, error) {
		_, last = e.client.CreateWithEventNamespaceWithContext(ctx, e.event)
		status := apierrors.APIStatus(nil)
		return last == nil || errors.As(last, &status), nil // what it refuses once it refuses always
	})
	if last == nil {
		last = err
	}
	goes := apierrors.HasStatusCause(last, corev1.NamespaceTerminatingCause) // and the object with its namespace
	if last != nil && ctx.Err() == nil && !apierrors.IsAlreadyExists(last) && !goes {
		klog.ErrorS(last, "Event is not written", "object", klog.KRef(e.event.InvolvedObject.Namespace,
			e.event.InvolvedObject.Name), "reason", e.event.Reason)
	}
}

// queueing makes clients whose new Events go by the queue.
type queueing struct {
	cloudprovider.ControllerClientBuilder

	queue eventQueue
}

func (b queueing) Client(name string) (kubernetes.Interface, error) {
	client, err := b.ControllerClientBuilder.Client(name)
	return queueingClient{client, b.queue}, err
}

func (b queueing) ClientOrDie(name string) kubernetes.Interface {
	return queueingClient{b.ControllerClientBuilder.ClientOrDie(name), b.queue}
}

type queueingClient struct {
	kubernetes.Interface

	queue eventQueue
}

func (c queueingClient) CoreV1() typedcorev1.CoreV1Interface {
	return queueingCore{c.Interface.CoreV1(), c.queue}
}

type queueingCore struct {
	typedcorev1.CoreV1Interface

	queue eventQueue
}

func (c queueingCore) Events(namespace string) typedcorev1.EventInterface {
	return queueingEvents{c.CoreV1Interface.Events(namespace), c.queue}
}

type queueingEvents struct {
	typedcorev1.EventInterface

	queue eventQueue
}

// CreateWithEventNamespace is what client-go's recorder calls. The Event that it returns has no resourceVersion yet,
// which the recorder does not miss: it patches by name.
func (e queueingEvents) CreateWithEventNamespace(event *corev1.Event) (*corev1.Event, error) {
	e.queue <- queuedEvent{e.EventInterface, event.DeepCopy()}
	return event, nil
}
