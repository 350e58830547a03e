// Package frompods asks the network from Nodes by short-lived pods: one with the machine's network on each Node, and one with the pod
// network where the Node has one. They run this program, without privileges and without a token.
//
// Start at [Run]. targets.go says what is asked, pod.go what a pod is and how it is watched, lease.go keeps two runs apart. What a
// pod does and how it answers is in package doctor/probe.
//
// Reads: Nodes, Services, EndpointSlices, kubeadm's configuration, the cluster's CA, and its own pods. Writes: pods and one Lease in
// kube-system, and deletes them in every case but that of its own sudden end.
// Running it twice: one run asks at a time. The next run removes what a killed one has left, once its Lease is seen not to be renewed;
// the pods of a killed run end by themselves within [podTakes].
// It will not: take a pod that does not start for a network that does not work.
package frompods

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/access"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/doctor/probe"
)

const (
	// requestTimeout is for a question to the API server.
	requestTimeout = 10 * time.Second
	often          = 500 * time.Millisecond
	// removalPatience is for what is deleted at the end.
	removalPatience = time.Minute
	// machineFirst is how long a pod waits for the answer from its machine. CNI plugin bridge turns ip_forward on for each pod that it
	// connects, and would hide that it was off.
	machineFirst = 10 * time.Second
	// mostNames is how many Nodes a line names.
	mostNames = 5
)

// Options say how Nodes are asked.
type Options struct {
	Client kubernetes.Interface
	// Image has ccmadm of this version as its entrypoint.
	Image string
	// AtOnce is how many Nodes are asked at the same time, at least 1. A Node has two pods.
	AtOnce int
	// Timeout is for all Nodes together.
	Timeout time.Duration
	// Nodes are the names of those to ask from; empty: all.
	Nodes []string
	// Holder says for people who asks.
	Holder string
	// Progress is told what is done. Nil: no one is.
	Progress func(string)
}

type run struct {
	Options
	// id tells this run's Lease and pods from those of others.
	id    string
	lease *coordinationv1.Lease
}

func (r *run) tell(format string, args ...any) {
	if r.Progress != nil {
		r.Progress(fmt.Sprintf(format, args...))
	}
}

// Run asks from Nodes until Timeout. Nodes for which there was no time are in the facts as not asked. Without facts the error says why
// nothing could be asked; with facts, that something was left behind. Where ctx ends, the pods are deleted, and there are no facts.
func Run(ctx context.Context, o Options) (facts *probe.Facts, err error) {
	r := newRun(o)
	if err := r.permitted(ctx); err != nil {
		return nil, err
	}
	if err := r.hold(ctx); err != nil {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
		defer cancel()
		_ = r.release(last) // the Lease may be there although its answer was lost; the next run goes over one that stays
		return nil, err
	}
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go r.renew(renewing, done, lost)
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), removalPatience)
		defer cancel()
		left := r.removePods(last, errors.Is(context.Cause(ctx), errTaken))
		stop()
		<-done
		if left = errors.Join(left, r.release(last)); left != nil {
			left = finding.Errorf("delete what the probe made: %w", left).
				WithHint("its pods end within %s, and the next probe deletes them", podBegins+podTakes)
		}
		err = errors.Join(err, left)
	}()
	first, cancel := context.WithTimeout(ctx, removalPatience) // an API server that never answers does not keep it from ending
	defer cancel()
	if err := r.removePods(first, false); err != nil {
		return nil, err
	}
	p, err := r.makePlan(ctx)
	if err != nil {
		return nil, err
	}
	return r.askAll(ctx, p)
}

func newRun(o Options) *run { return &run{Options: o, id: rand.String(6)} }

// permitted asks whether the user may make the pods and the Lease, and delete them again, before anything is made.
func (r *run) permitted(ctx context.Context) error {
	var denied []string
	for _, may := range []struct{ group, resource, verb string }{
		{"", "pods", "create"},
		{"", "pods", "get"},
		{"", "pods", "list"},
		{"", "pods", "delete"},
		{"coordination.k8s.io", "leases", "create"},
		{"coordination.k8s.io", "leases", "get"},
		{"coordination.k8s.io", "leases", "update"},
		{"coordination.k8s.io", "leases", "delete"},
	} {
		asking, cancel := context.WithTimeout(ctx, requestTimeout)
		what, err := access.Denied(asking, r.Client, authorizationv1.ResourceAttributes{
			Namespace: v1alpha1.Namespace, Group: may.group, Resource: may.resource, Verb: may.verb,
		})
		cancel()
		if err != nil {
			return fmt.Errorf("ask what this user may do: %w", err)
		}
		if what != "" {
			denied = append(denied, what)
		}
	}
	if len(denied) > 0 {
		return finding.Preflightf("probe from Nodes: in namespace %s this user may not %s", v1alpha1.Namespace, strings.Join(denied, ", ")).
			WithHint("a Role in %s with these verbs; docs/tasks/check-the-network.md lists all", v1alpha1.Namespace)
	}
	return nil
}

// askAll asks from each Node.
func (r *run) askAll(whole context.Context, p *plan) (*probe.Facts, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(whole, r.Timeout)
	defer cancel()
	f := &probe.Facts{Only: r.Nodes}
	var foreign []string
	book := newBook(f)
	var mu sync.Mutex
	var all errgroup.Group
	all.SetLimit(r.AtOnce)
	for i := range p.nodes {
		n := &p.nodes[i]
		if len(r.Nodes) > 0 && !slices.Contains(r.Nodes, n.Name) {
			continue
		}
		if os := n.Labels[corev1.LabelOSStable]; os != "" && os != "linux" {
			foreign = append(foreign, fmt.Sprintf("%s (%s)", n.Name, os))
			continue
		}
		all.Go(func() error {
			tasks := map[probe.Place]*probe.Task{}
			for _, from := range []probe.Place{probe.Machine, probe.Pod} {
				tasks[from] = &probe.Task{Targets: p.of(i, from), CA: p.ca}
			}
			found := r.askNode(ctx, n, tasks)
			mu.Lock()
			defer mu.Unlock()
			for _, s := range found {
				book.enter(s, tasks[s.From].Targets)
			}
			return nil
		})
	}
	_ = all.Wait() // none returns an error
	if len(foreign) > 0 {
		p.leaveOut("the network from %s without Linux, where the pods do not run: %s", finding.Count(len(foreign), "Node"),
			nodes.Some(foreign, mostNames))
	}
	f.NotLooked, f.Unknown = p.notLooked, p.unknown
	if whole.Err() != nil {
		return nil, fmt.Errorf("probe from Nodes: %w", context.Cause(whole))
	}
	slices.SortStableFunc(f.Sources, func(a, b probe.Source) int { // the machine before its pod
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.From, b.From))
	})
	f.Took = time.Since(began)
	return f, nil
}

// book gives each target one place in the facts, whoever asked.
type book struct {
	facts *probe.Facts
	at    map[probe.Target]int
}

func newBook(f *probe.Facts) *book { return &book{f, map[probe.Target]int{}} }

// enter adds what a pod said, whose indices are those of its task.
func (b *book) enter(s probe.Source, targets []probe.Target) {
	if s.Unasked == "" {
		for _, t := range targets {
			at, known := b.at[t]
			if !known {
				at = len(b.facts.Targets)
				b.at[t] = at
				b.facts.Targets = append(b.facts.Targets, t)
			}
			s.Asked = append(s.Asked, at)
		}
		for i := range s.Answer.Failed {
			s.Answer.Failed[i].Target = s.Asked[s.Answer.Failed[i].Target]
		}
	}
	b.facts.Sources = append(b.facts.Sources, s)
}

// askNode asks from a machine, and then from a pod on it.
func (r *run) askNode(ctx context.Context, n *corev1.Node, tasks map[probe.Place]*probe.Task) []probe.Source {
	list := []probe.Source{{Node: n.Name, From: probe.Machine}, {Node: n.Name, From: probe.Pod}}
	var all sync.WaitGroup
	answered := make(chan struct{})
	for i := range list {
		s := &list[i]
		if s.From == probe.Pod {
			if s.Unasked = withoutPods(n); s.Unasked != "" {
				continue
			}
		}
		all.Go(func() {
			if s.From == probe.Machine {
				defer close(answered)
			} else {
				select {
				case <-answered:
				case <-time.After(machineFirst):
				}
			}
			answer, err := r.ask(ctx, n, s.From, tasks[s.From])
			if err != nil {
				s.Unasked = short(finding.Clean(err.Error()))
				return
			}
			s.Answer = *answer
		})
	}
	all.Wait()
	r.tell("asked from Node/%s", finding.Clean(n.Name))
	return list
}

// withoutPods is why a kubelet starts no pods that need a network, which it does where the Node is Ready; empty: it does. One that has
// stopped to report is asked.
func withoutPods(n *corev1.Node) string {
	for _, c := range n.Status.Conditions {
		switch {
		case c.Type != corev1.NodeReady:
		case c.Status != corev1.ConditionFalse:
			return ""
		default:
			return short(strings.TrimSuffix(finding.Clean("the Node is not Ready: "+cmp.Or(c.Message, c.Reason)), ": "))
		}
	}
	return "its kubelet has not reported yet"
}

// short is a text of a kubelet as far as a line has room for it.
func short(text string) string {
	const most = 400
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + " ..."
	}
	return text
}
