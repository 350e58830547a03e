package nodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// WaitOptions say what to wait for.
type WaitOptions struct {
	// Nodes are names. Empty: all that there are, and at least one.
	Nodes []string
	// Until is the state that each shall reach.
	Until State
	// Lease is that of the leader by the cluster's record. Empty: there is no record, and it is v1alpha1.LeaseName.
	Lease string
	// Changed is called with each change, and at the end with what is missing and why.
	Changed func(Status)
	// Left is called each second with the time that is left, where there is an end; may be nil.
	Left func(time.Duration)
}

// WaitError says which nodes are not there, how far they have come, and why.
type WaitError struct {
	// Until is the state that was waited for.
	Until State
	// Nodes are those that have not reached it, with their causes.
	Nodes []Status
	// Err is what ended the wait.
	Err error
}

// Error tells nodes with the same trouble together, a line for each trouble.
func (e *WaitError) Error() string {
	lines, _ := Tell(e.Nodes)
	return fmt.Sprintf("wait for nodes to be %s: %s", e.Until, strings.Join(lines, "\n"))
}

// Unwrap returns what ended the wait.
func (e *WaitError) Unwrap() error { return e.Err }

// Hint is the next step for each trouble.
func (e *WaitError) Hint() string {
	_, next := Tell(e.Nodes)
	return strings.Join(next, "\n")
}

// Explaining takes a sixth of the time for waiting: five seconds end within six.
const minExplaining, maxExplaining = 800 * time.Millisecond, 10 * time.Second

// Wait follows nodes until each has come as far as wanted. It watches; nothing is polled. The error is a *WaitError
// when ctx's deadline passes before; any other error says what could not be asked. It returns the last status of each node
// in any case.
func Wait(ctx context.Context, c kubernetes.Interface, o WaitOptions) ([]Status, error) {
	explaining := maxExplaining
	if deadline, ok := ctx.Deadline(); ok {
		explaining = min(max(time.Until(deadline)/6, minExplaining), maxExplaining)
	}
	w, err := watchNodes(ctx, c, o.Nodes, cmp.Or(o.Lease, v1alpha1.LeaseName))
	if err != nil {
		return nil, err
	}
	defer w.stop()
	clock := time.NewTicker(time.Second) // a Lease that runs out is no event
	defer clock.Stop()
	seen := map[string]Status{}
	for {
		statuses := w.statuses(o.Nodes, time.Now())
		o.show(seen, statuses)
		if len(statuses) > 0 && len(below(statuses, o.Until)) == 0 {
			return statuses, nil
		}
		if err := w.hopeless(); err != nil {
			return statuses, fmt.Errorf("watch nodes: %w", err)
		}
		select {
		case <-w.changed:
		case <-clock.C:
			if deadline, ok := ctx.Deadline(); ok && o.Left != nil {
				o.Left(time.Until(deadline))
			}
		case <-ctx.Done():
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return statuses, fmt.Errorf("wait for nodes to be %s: %w", o.Until, context.Cause(ctx))
			}
			after, cancel := context.WithTimeout(context.WithoutCancel(ctx), explaining)
			defer cancel()
			return o.late(after, c, w, seen)
		}
	}
}

// show tells of what has changed.
func (o WaitOptions) show(seen map[string]Status, statuses []Status) {
	for _, s := range statuses {
		if last, known := seen[s.Node]; !known || !s.same(last) {
			seen[s.Node] = s
			o.Changed(s)
		}
	}
}

// late finds out why it was not enough. It reads the nodes again: a watch that gets no answer keeps that to itself.
func (o WaitOptions) late(
	ctx context.Context,
	c kubernetes.Interface,
	w *watcher,
	seen map[string]Status,
) ([]Status, error) {
	nodes, err := getNodes(ctx, c, o.Nodes)
	if err != nil {
		if last := w.lastError(); last != nil && errors.Is(err, context.DeadlineExceeded) {
			err = last
		}
		return nil, fmt.Errorf("wait for nodes to be %s: %w", o.Until, err)
	}
	names := o.Nodes
	if len(names) == 0 {
		names = machines(nodes)
	}
	find, now := finder(nodes), time.Now()
	var statuses []Status
	for _, name := range names {
		statuses = append(statuses, StatusOf(name, find(name), w.leader.held(now), now))
	}
	o.show(seen, statuses)
	e := &WaitError{Until: o.Until, Nodes: below(statuses, o.Until), Err: context.DeadlineExceeded}
	switch {
	case len(statuses) == 0:
		none := finding.NoNodes.New("", "there is no node at all")
		return nil, &finding.Error{
			Code: finding.ExitNotInTime,
			Err:  fmt.Errorf("wait for nodes to be %s: %s: %w", o.Until, none.Message, e.Err),
			Hint: none.Do,
		}
	case len(e.Nodes) == 0:
		return statuses, nil
	}
	f := &Facts{Nodes: nodes, every: len(o.Nodes) == 0, Now: now, Recorded: o.Lease != ""}
	f.keep(w.leader)
	if len(below(e.Nodes, Ready)) > 0 {
		f.askManager(ctx, c)
	}
	explain(f.evidence(), find, e.Nodes)
	for _, s := range e.Nodes {
		o.Changed(s)
	}
	return statuses, e
}
