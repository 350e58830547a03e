package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/objects"
)

const (
	// gather is how long changes gather before they are reported.
	gather = 20 * time.Millisecond
	// renewPeriod is how often an agent says that it is alive. It counts as dead after [objects.LiveTime].
	renewPeriod = 20 * time.Second
	// reportRetry is the shortest pause after a report that was not written, whatever changes meanwhile.
	reportRetry = time.Second
	// retryJitter keeps agents from trying again all at once.
	retryJitter = 0.2
	// reportTimeout is for API servers that swallow packets.
	reportTimeout = 10 * time.Second
)

// reporter writes the NodeAgent of its own Node.
type reporter struct {
	node, version string
	agents        *objects.NodeAgents
	nodes         cache.SharedIndexInformer
	// sources add what they know to a report.
	sources []func(*v1alpha1.NodeAgentStatus)
	// written are told what was sent, and what the API server has of it, or why it has refused it.
	written []func(sent, kept *v1alpha1.NodeAgentStatus, refused error)

	lease   *lease
	reader  *reader
	changes chan struct{}
	gone    chan struct{}
	last    *v1alpha1.NodeAgent // as the API server returned it
}

func newReporter(config *rest.Config, node, version string, c *caches) (*reporter, error) {
	client, err := objects.New(config)
	if err != nil {
		return nil, err
	}
	r := &reporter{
		node: node, version: version,
		agents: client.NodeAgents, nodes: c.nodes,
		lease: &lease{node: node, client: client.NodeAgentLeases, nodes: c.nodes}, reader: c.reader,
		changes: make(chan struct{}, 1), gone: make(chan struct{}, 1),
	}
	_, err = c.agents.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: r.marked, UpdateFunc: func(_, object any) { r.marked(object) }, DeleteFunc: r.deleted,
	})
	if err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	return r, nil
}

// deleted asks for a new report if it is this Node's that somebody has deleted. It does not wait.
func (r *reporter) deleted(object any) {
	if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err != nil || key != r.node {
		return
	}
	ask(r.gone)
}

// marked asks for a new report if the manager has taken this Node's vote, because the agent was silent: a report returns it.
func (r *reporter) marked(object any) {
	if a, is := object.(*v1alpha1.NodeAgent); is && a.Name == r.node && a.Silent() {
		r.changed()
	}
}

// changed asks for a report soon. It does not wait.
func (r *reporter) changed() { ask(r.changes) }

// ask asks for a report by a channel with room for one.
func ask(channel chan<- struct{}) {
	select {
	case channel <- struct{}{}:
	default: // there will be one
	}
}

// retries are the pauses after reports that failed.
type retries struct{ last time.Duration }

// after returns the pause after a failure. An API server that is away is asked again every second, since reports that
// are a minute old count for nothing; one that refuses, less and less: it may refuse those of all agents.
func (r *retries) after(err error) time.Duration {
	if !objects.Refused(err) {
		r.last = 0
		return wait.Jitter(reportRetry, retryJitter)
	}
	r.last = min(max(reportRetry, 2*r.last), renewPeriod)
	return wait.Jitter(r.last, retryJitter)
}

// run reports until ctx is done.
func (r *reporter) run(ctx context.Context) {
	if !cache.WaitForCacheSync(ctx.Done(), r.nodes.HasSynced) {
		return
	}
	var retry retries
	for say := r.write; ; {
		err := say(ctx)
		if objects.Refused(err) {
			r.tell(nil, nil, err)
		}
		pause := retry.after(err)
		if err == nil {
			pause = renewPeriod
			if trusted := r.reader.trusted(time.Now()); trusted > 0 {
				pause = min(pause, trusted) // then this Node's report may be needed at once
			}
		}
		again := time.After(pause)
		say = r.write
		if err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "Failed to write this Node's report; retrying", "after", pause)
			select {
			case <-ctx.Done():
			case <-time.After(reportRetry): // whatever changes
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-again:
			say = r.renew
		case <-r.changes:
			time.Sleep(gather)
		case <-r.gone:
			r.last = nil
		}
	}
}

// renew says that the agent is alive, where there was no change: by its lease if a manager watches these, else by its report.
// Some of a report is found out only when it is made.
func (r *reporter) renew(ctx context.Context) error {
	if r.reader.trusted(time.Now()) <= 0 || r.last == nil {
		return r.write(ctx)
	}
	next := r.status()
	next.RenewTime = r.last.Status.RenewTime
	if !equality.Semantic.DeepEqual(next, r.last.Status) {
		return r.write(ctx)
	}
	err := r.lease.renew(ctx)
	if objects.Refused(err) || apierrors.IsNotFound(err) { // permissions or definitions of an earlier release
		return r.write(ctx)
	}
	return err
}

// write replaces the status, and makes the object if there is none.
func (r *reporter) write(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	if r.last == nil {
		var err error
		if r.last, err = r.find(ctx); err != nil {
			return err
		}
	}
	next := r.last.DeepCopy()
	next.Status = r.status()
	written, err := r.agents.UpdateStatus(ctx, next, metav1.UpdateOptions{})
	if err != nil {
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			r.last = nil // another program has written it, or it has gone
		}
		return fmt.Errorf("update NodeAgent/%s: %w", r.node, err)
	}
	r.last = written
	r.tell(&next.Status, &written.Status, nil)
	return nil
}

// status is what is to be reported now. The lists of voters stay until the announcer has begun with them.
func (r *reporter) status() v1alpha1.NodeAgentStatus {
	s := v1alpha1.NodeAgentStatus{Version: r.version, RenewTime: metav1.NowMicro(), Voters: r.last.Status.Voters}
	for _, add := range r.sources {
		add(&s)
	}
	s.Announced = int32(len(s.Announcements))
	return s
}

func (r *reporter) tell(sent, kept *v1alpha1.NodeAgentStatus, refused error) {
	for _, written := range r.written {
		written(sent, kept, refused)
	}
}

// find gets the object or makes it. Its owner is the Node, so that it goes with it.
func (r *reporter) find(ctx context.Context) (*v1alpha1.NodeAgent, error) {
	found, err := r.agents.Get(ctx, r.node, metav1.GetOptions{})
	if err == nil {
		return found, nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("get NodeAgent/%s: %w", r.node, err)
	}
	meta, err := ownedByNode(r.nodes, r.node)
	if err != nil {
		return nil, fmt.Errorf("create NodeAgent/%s: %w", r.node, err)
	}
	made, err := r.agents.Create(ctx, &v1alpha1.NodeAgent{ObjectMeta: meta}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create NodeAgent/%s: %w", r.node, err)
	}
	return made, nil
}

// ownedByNode is the metadata of an object that goes with the Node of its name.
func ownedByNode(nodes cache.SharedIndexInformer, name string) (metav1.ObjectMeta, error) {
	object, _, err := nodes.GetStore().GetByKey(name)
	node, ok := object.(*corev1.Node)
	if !ok {
		return metav1.ObjectMeta{}, errors.Join(err, errors.New("the Node of this name does not exist yet"))
	}
	return metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID,
	}}}, nil
}
