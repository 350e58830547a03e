package routes

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/objects"
)

const (
	// resyncPeriod is how often everything is compared although nothing has changed.
	resyncPeriod = time.Minute
	// retryPeriod is that after a failure.
	retryPeriod = time.Second
	// minPause between two comparisons: a burst of events, such as the start of many pods, is one.
	minPause = 50 * time.Millisecond
)

// Agent keeps the routes of one machine.
type Agent struct {
	// Node is the machine's.
	Node string
	// Nodes is an informer that the caller starts.
	Nodes cache.SharedIndexInformer
	// Within has the cluster's ranges of pods. No route leads elsewhere. Empty: everywhere.
	Within []netip.Prefix
	// Kernel is where routes are set.
	Kernel *Kernel
	// CNIDir is where a CNI configuration is written that connects the machine's pods. Empty: another program connects them.
	CNIDir string
	// AddOns tells whether a network add-on is still there whose condition the Node has.
	AddOns *AddOns
	// Changed is called whenever what Routes says is another. It must not wait.
	Changed func()

	held        holder
	wanted      atomic.Pointer[map[netip.Prefix]bool] // the watch reads it, sync writes it
	reported    atomic.Pointer[reported]
	damping     damping
	masquerades []any // what table there is, and since when
	masqueraded time.Time
	said        string
}

// Report adds the number of routes to a report of this Node. It does not wait.
func (a *Agent) Report(status *v1alpha1.NodeAgentStatus) {
	routes, _, _ := a.Routes()
	status.Routed = int32(len(routes))
}

// Routes are what there is in the kernel, and what is not; false: it has not looked yet. It does not wait. Neither must be changed.
func (a *Agent) Routes() ([]v1alpha1.AgentRoute, []v1alpha1.RouteProblem, bool) {
	if now := a.reported.Load(); now != nil {
		return now.routes, now.problems, true
	}
	return nil, nil, false
}

// Run sets routes, and repairs them within milliseconds of an event of the kernel, until ctx is done. It touches
// nothing before the Nodes are known, and goes on with those that it knows while the API server does not answer.
// It leaves everything in place at its end.
func (a *Agent) Run(ctx context.Context) error {
	poke := make(chan struct{}, 1)
	changed := func() {
		select {
		case poke <- struct{}{}:
		default: // it will look anyway
		}
	}
	registration, err := a.Nodes.AddEventHandler(relevantChanges(changed))
	if err != nil {
		return fmt.Errorf("follow Nodes: %w", err)
	}
	defer func() { _ = a.Nodes.RemoveEventHandler(registration) }() // it is there
	if !cache.WaitForCacheSync(ctx.Done(), a.Nodes.HasSynced) {
		return nil
	}
	go a.watch(ctx, changed)
	for {
		pause := resyncPeriod
		next, err := a.sync(ctx, time.Now())
		if err != nil {
			klog.ErrorS(err, "Failed to reconcile routes; retrying", "after", retryPeriod)
			pause = retryPeriod
		} else if !next.IsZero() {
			pause = min(pause, max(0, time.Until(next)))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(minPause):
		}
		select {
		case <-ctx.Done():
			return nil
		case <-poke:
		case <-time.After(pause):
		}
	}
}

// sync compares once, and changes what differs. The first result is when it has to be called again at the latest.
func (a *Agent) sync(ctx context.Context, now time.Time) (next time.Time, err error) {
	nodes := a.nodes()
	self := slices.IndexFunc(nodes, func(n *corev1.Node) bool { return n.Name == a.Node })
	if self < 0 {
		a.sayOnce("Node/" + a.Node + " is not among the Nodes: nothing is changed")
		return next, nil
	}
	intents, problems := Intents(a.Node, nodes, a.Within)
	if owner := a.owner(ctx, now, nodes[self]); owner != "" {
		a.sayOnce(owner + ": nothing is changed")
		for _, intent := range intents {
			problems = append(problems, intent.problem(Foreign, owner))
		}
		a.report(now, nil, problems)
		return next, nil
	}
	intents, next = a.held.hold(now, intents)
	a.remember(intents)
	settled, more, err := a.setRoutes(intents)
	if err != nil {
		return next, err
	}
	a.report(now, settled, append(problems, more...))
	if a.CNIDir != "" {
		return next, a.connectPods(now, nodes[self], nodes, intents)
	}
	a.said = ""
	return next, nil
}

// owner says which network add-on owns the routes of this machine; empty: none does. Only the condition of its own Node
// counts, so that nobody stops the others with theirs. One that is not recent any more was left behind if its add-on has
// no DaemonSet; as long as no agent could be asked, it was not.
func (a *Agent) owner(ctx context.Context, now time.Time, self *corev1.Node) string {
	owner := describeCondition(self)
	if owner == "" || recent(now, addOnCondition(self)) {
		return owner
	}
	set, known, err := a.AddOns.find(ctx, addOnsKnownFor)
	if err != nil && !known {
		return fmt.Sprintf("%s, unless it is gone: %v", owner, err)
	}
	return set
}

// nodes returns those that are known, by their names.
func (a *Agent) nodes() []*corev1.Node {
	nodes := objects.List[*corev1.Node](a.Nodes.GetStore())
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes
}

// remember tells the watch which routes of others concern us.
func (a *Agent) remember(intents []Intent) {
	wanted := make(map[netip.Prefix]bool, len(intents))
	for _, intent := range intents {
		wanted[intent.Destination] = true
	}
	a.wanted.Store(&wanted)
}

// setRoutes makes the kernel have the intents, and returns those that it has.
func (a *Agent) setRoutes(intents []Intent) (settled []Intent, problems []v1alpha1.RouteProblem, err error) {
	kernel, err := a.Kernel.list()
	if err != nil {
		return nil, nil, err
	}
	changes, settled, problems := plan(intents, kernel, a.Kernel.onLink)
	done := map[verb]int{}
	for _, c := range changes {
		err := a.Kernel.apply(c)
		switch {
		case err == nil:
			done[c.verb]++
			if c.intent.Destination.IsValid() {
				settled = append(settled, c.intent)
			}
		case c.verb == remove:
			klog.ErrorS(err, "Failed to remove a route")
		case errors.Is(err, unix.EEXIST): // since it was listed
			problems = append(problems, c.intent.problem(Foreign, err.Error()))
		default:
			problems = append(problems, c.intent.problem(Rejected, err.Error()))
		}
	}
	if len(done) > 0 {
		klog.InfoS("Routes were changed", "added", done[add], "replaced", done[replace], "removed", done[remove],
			"problems", len(problems))
	}
	return settled, problems, nil
}

// report keeps it for Routes, and says so if something has changed.
func (a *Agent) report(now time.Time, settled []Intent, problems []v1alpha1.RouteProblem) {
	slices.SortFunc(settled, func(a, b Intent) int { return a.Destination.Compare(b.Destination) })
	sortProblems(problems)
	current := &reported{problems: problems}
	for _, intent := range settled {
		r := v1alpha1.AgentRoute{Destination: intent.Destination.String(), Node: intent.Node}
		if intent.Via.IsValid() {
			r.Via = intent.Via.String()
		}
		current.routes = append(current.routes, r)
	}
	if a.damping == nil {
		a.damping = damping{}
	}
	current = a.damping.damp(now, current)
	if before := a.reported.Swap(current); !reflect.DeepEqual(before, current) {
		a.Changed()
	}
}

// sayOnce logs what changes nothing by being repeated.
func (a *Agent) sayOnce(what string) {
	if a.said != what {
		a.said = what
		klog.InfoS("Routes", "state", what)
	}
}
