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
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
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
	r := &run{Options: o}
	if err := r.hold(ctx); err != nil {
		return nil, err
	}
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go r.renew(renewing, done)
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), removalPatience)
		defer cancel()
		left := r.removePods(last)
		stop()
		<-done
		if left = errors.Join(left, r.release(last)); left != nil {
			left = finding.Errorf("delete what the probe made: %w", left).WithHint("the next probe deletes it; the pods have ended")
		}
		err = errors.Join(err, left)
	}()
	if err := r.removePods(ctx); err != nil {
		return nil, err
	}
	p, err := r.makePlan(ctx)
	if err != nil {
		return nil, err
	}
	return r.askAll(ctx, p)
}

// askAll asks from each Node.
func (r *run) askAll(whole context.Context, p *plan) (*probe.Facts, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(whole, r.Timeout)
	defer cancel()
	f := &probe.Facts{NotLooked: p.notLooked}
	book := newBook(f)
	var mu sync.Mutex
	var all errgroup.Group
	all.SetLimit(r.AtOnce)
	for i := range p.nodes {
		n := &p.nodes[i]
		if len(r.Nodes) > 0 && !slices.Contains(r.Nodes, n.Name) {
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
	if whole.Err() != nil {
		return nil, fmt.Errorf("probe from Nodes: %w", context.Cause(whole))
	}
	slices.SortFunc(f.Sources, func(a, b probe.Source) int { // the machine before its pod
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
	if os := n.Labels[corev1.LabelOSStable]; os != "" && os != "linux" {
		for i := range list {
			list[i].Unasked = "it runs " + os
		}
		return list
	}
	var all sync.WaitGroup
	answered := make(chan struct{})
	for i := range list {
		s := &list[i]
		if s.From == probe.Pod && !hasPodNetwork(n) {
			s.Unasked = "the Node has no pod network yet, as its kubelet says"
			continue
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
				s.Unasked = finding.Clean(err.Error())
				return
			}
			s.Answer = *answer
		})
	}
	all.Wait()
	r.tell("asked from Node/%s", finding.Clean(n.Name))
	return list
}

// hasPodNetwork reports whether a kubelet starts pods that need a network: it is Ready only then. One that does not report is asked.
func hasPodNetwork(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status != corev1.ConditionFalse
		}
	}
	return false
}
