package nodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// WaitOptions say what to wait for.
type WaitOptions struct {
	// Nodes are names. Empty: all that there are, and at least one.
	Nodes []string
	// Until is the state that each shall reach.
	Until State
	// Lease is that of the leader. Empty: LeaseName.
	Lease string
	// Changed is called with each change, and at the end with what is missing and why.
	Changed func(Status)
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

// Error tells nodes with the same trouble together.
func (e *WaitError) Error() string {
	var order []string
	groups := map[string][]string{}
	for _, n := range e.Nodes {
		text := n.State.String()
		if n.Cause != nil {
			text += ": " + n.Cause.Message
		}
		if groups[text] == nil {
			order = append(order, text)
		}
		groups[text] = append(groups[text], n.Node)
	}
	var parts []string
	for _, text := range order {
		parts = append(parts, some(groups[text])+" "+text)
	}
	return fmt.Sprintf("wait for nodes to be %s: %s", e.Until, strings.Join(parts, "; "))
}

func some(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// Unwrap returns what ended the wait.
func (e *WaitError) Unwrap() error { return e.Err }

// Hint is the next step for the first of them.
func (e *WaitError) Hint() string {
	for _, n := range e.Nodes {
		if n.Cause != nil && n.Cause.Next != "" {
			return n.Cause.Next
		}
	}
	return ""
}

// explaining bounds the search for causes, when the time for waiting has run out.
const explaining = 10 * time.Second

// Wait follows nodes until each has come as far as wanted. It watches; nothing is polled. The error is a *WaitError
// when ctx's deadline passes before. It returns the last status of each node in any case.
func Wait(ctx context.Context, c kubernetes.Interface, o WaitOptions) ([]Status, error) {
	w, err := watchNodes(ctx, c, o.Nodes, cmp.Or(o.Lease, v1alpha1.LeaseName))
	if err != nil {
		return nil, err
	}
	defer w.stop()
	clock := time.NewTicker(time.Second) // a lease that nobody renews is no event
	defer clock.Stop()
	seen := map[string]Status{}
	for {
		statuses := w.statuses(o.Nodes, time.Now())
		for _, s := range statuses {
			if last, known := seen[s.Node]; !known || !s.same(last) {
				seen[s.Node] = s
				o.Changed(s)
			}
		}
		if len(statuses) > 0 && len(below(statuses, o.Until)) == 0 {
			return statuses, nil
		}
		if err := w.hopeless(); err != nil {
			return statuses, fmt.Errorf("watch nodes: %w", err)
		}
		select {
		case <-w.changed:
		case <-clock.C:
		case <-ctx.Done():
			return statuses, o.late(ctx, c, w, statuses)
		}
	}
}

func below(statuses []Status, until State) []Status {
	var list []Status
	for _, s := range statuses {
		if s.State < until {
			list = append(list, s)
		}
	}
	return list
}

// late finds out why it was not enough.
func (o WaitOptions) late(ctx context.Context, c kubernetes.Interface, w *watcher, statuses []Status) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("wait for nodes to be %s: %w", o.Until, context.Cause(ctx))
	}
	e := &WaitError{Until: o.Until, Nodes: below(statuses, o.Until), Err: ctx.Err()}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), explaining)
	defer cancel()
	if len(statuses) == 0 {
		if _, err := getNodes(ctx, c, o.Nodes); err != nil { // the watch keeps refused connections to itself
			return fmt.Errorf("wait for nodes to be %s: %w", o.Until, err)
		}
		return fmt.Errorf("wait for nodes to be %s: there is no node at all: %w", o.Until, e.Err)
	}
	explain(ctx, c, w.leaseName, w.node, e.Nodes)
	for _, s := range e.Nodes {
		o.Changed(s)
	}
	return e
}
