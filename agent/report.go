package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
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
	// conflictNews is how long it is no news that a conflict was seen again.
	conflictNews = time.Minute
	// reportTimeout is for API servers that swallow packets.
	reportTimeout = 10 * time.Second
)

// reporter writes the NodeAgent of its own Node.
type reporter struct {
	node, version string
	agents        *objects.NodeAgents
	nodes, all    cache.SharedIndexInformer // Nodes, and the reports of all
	// sources add what they know to a report, and announcing are those of them that know what is announced.
	sources, announcing []func(*v1alpha1.NodeAgentStatus)
	// written are told what was sent, and what the API server has of it, or why it has refused it.
	written []func(sent, kept *v1alpha1.NodeAgentStatus, refused error)

	lease   *lease
	apart   *apart
	reader  *reader
	marks   chan struct{}
	spoke   time.Time // when it last said that it is alive
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
		agents: client.NodeAgents, nodes: c.nodes, all: c.agents,
		reader:  c.reader,
		changes: make(chan struct{}, 1), gone: make(chan struct{}, 1), marks: make(chan struct{}, 1),
	}
	if r.lease, err = newLease(client, node, c.nodes); err != nil {
		return nil, err
	}
	if r.apart, err = newApart(client, node, c.nodes, c.reader, r.announces, r.changed); err != nil {
		return nil, err
	}
	c.reader.begins = r.announced
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
		ask(r.marks)
	}
}

// changed asks for a report soon. It does not wait.
func (r *reporter) changed() { ask(r.changes) }

// announced asks for one where what is announced may have changed.
func (r *reporter) announced() {
	r.changed()
	r.apart.changed()
}

// announces adds what is announced to a report.
func (r *reporter) announces(s *v1alpha1.NodeAgentStatus) {
	for _, add := range r.announcing {
		add(s)
	}
}

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
		owed := err != nil
		if !owed {
			pause = r.pause(time.Now())
		}
		again := time.After(pause)
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
			say = r.report
		case <-r.marks:
			owed = true
		case <-r.gone:
			r.last, owed = nil, true
		}
		if owed { // whatever failed: a lease would not return a vote, nor tell who waits for a report
			say = r.write
		}
	}
}

// pause is how long an agent that has said something may say nothing. A change that is no news for others does not put it off. Agents
// that were told something at the same moment do not go on at the same moment.
func (r *reporter) pause(now time.Time) time.Duration {
	pause := renewPeriod - rand.N(renewPeriod/5) - now.Sub(r.spoke)
	if trusted := r.reader.trusted(now); trusted > 0 {
		pause = min(pause, trusted) // then this Node's report may be needed at once
	}
	return pause
}

// says returns whether the API server has what is to be reported, where a manager watches leases. Who waits for a report is told.
func (r *reporter) says() bool {
	if r.reader.trusted(time.Now()) <= 0 || r.last == nil {
		return false
	}
	next := r.status()
	next.RenewTime = r.last.Status.RenewTime
	if sameConflicts(next.Conflicts, r.last.Status.Conflicts) {
		next.Conflicts = r.last.Status.Conflicts
	}
	if !equality.Semantic.DeepEqual(next, r.last.Status) {
		return false
	}
	r.tell(&next, &r.last.Status, nil)
	return true
}

// sameConflicts leaves out that a conflict was seen again: any machine that answers on the link could have all agents read it all the time.
func sameConflicts(now, before []v1alpha1.AddressConflict) bool {
	return slices.EqualFunc(now, before, func(a, b v1alpha1.AddressConflict) bool {
		again := a.Seen.Sub(b.Seen.Time) < conflictNews
		a.Seen, b.Seen = metav1.MicroTime{}, metav1.MicroTime{}
		return again && a == b
	})
}

// overwritten reports whether the API server has another report than this agent has written, such as one of a backup. Writing it ends in a
// conflict, or repairs it.
func (r *reporter) overwritten() bool {
	if r.all == nil {
		return false
	}
	object, there, _ := r.all.GetStore().GetByKey(r.node) // a store of client-go has no error here
	own, is := object.(*v1alpha1.NodeAgent)
	return !there || !is || own.UID != r.last.UID || own.ResourceVersion != r.last.ResourceVersion
}

// report writes the report if it has changed: what is announced may be apart.
func (r *reporter) report(ctx context.Context) error {
	if r.says() {
		return nil
	}
	return r.write(ctx)
}

// renew says that the agent is alive: by its lease if a manager watches these and there was no change, else by its report.
// Some of a report is found out only when it is made.
func (r *reporter) renew(ctx context.Context) error {
	if !r.says() || r.overwritten() {
		return r.write(ctx)
	}
	err := r.lease.renew(ctx)
	if objects.Refused(err) || apierrors.IsNotFound(err) { // permissions or definitions of an earlier release
		return r.write(ctx)
	}
	if err == nil {
		r.spoke = time.Now()
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
	r.last, r.spoke = written, time.Now()
	if r.apart.written(&next.Status, &written.Status, r.reader.period(time.Now())) {
		r.changed()
	}
	r.tell(&next.Status, &written.Status, nil)
	return nil
}

// status is what is to be reported now. An agent that has just started leaves what it does not know yet as it was: the lists of
// voters until the announcer has begun with them, and interfaces until it has read them. Without its interfaces the
// cloud-controller-manager would take the addresses of other Nodes in the same subnet for wrong ones.
func (r *reporter) status() v1alpha1.NodeAgentStatus {
	last := &r.last.Status
	s := v1alpha1.NodeAgentStatus{
		Version: r.version, RenewTime: metav1.NowMicro(),
		Voters: last.Voters, Interfaces: last.Interfaces, KernelAnswers: last.KernelAnswers,
	}
	for _, add := range r.sources {
		add(&s)
	}
	s.Announced = int32(len(s.Announcements))
	r.apart.leave(&s, r.reader.period(time.Now()))
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
