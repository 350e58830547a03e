package fleet

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// FailedNode is a node that did not come through.
type FailedNode struct {
	*Node

	Err error
}

// inParallel changes nodes, so many at a time, and begins no other once one has failed.
func inParallel(list []*Node, atOnce int, change func(*Node) error) []FailedNode {
	var mu sync.Mutex
	var failed []FailedNode
	slots := make(chan struct{}, max(atOnce, 1))
	var underWay sync.WaitGroup
	for _, n := range list {
		slots <- struct{}{}
		mu.Lock()
		stop := len(failed) > 0
		mu.Unlock()
		if stop {
			break
		}
		underWay.Go(func() {
			defer func() { <-slots }()
			if err := change(n); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, FailedNode{n, err})
			}
		})
	}
	underWay.Wait()
	return failed
}

// StoppedAt is the error of nodes that did not come through, with hints of the caller's, and last how to go on. What a
// machine refuses was refused with nothing changed there; here something was by then, and nodes may be done.
func StoppedAt(failed []FailedNode, hints []string, last string) *finding.Error {
	code := finding.ExitError
	var all []error
	for _, n := range failed {
		all = append(all, fmt.Errorf("node %s: %w", n.Name, n.Err))
		var known *finding.Error
		if !errors.As(n.Err, &known) {
			continue
		}
		hint := strings.TrimSuffix(strings.TrimSuffix(known.Hint, "; nothing was changed"), ". Nothing was changed")
		if hint != "" && !slices.Contains(hints, hint) {
			hints = append(hints, hint)
		}
		if known.Code == finding.ExitNotInTime {
			code = known.Code
		}
	}
	return &finding.Error{Code: code, Err: errors.Join(all...), Hint: strings.Join(append(hints, last), "\n")}
}

// NodesProgress counts the nodes of a run that are to be changed. Its methods may be called at the same time.
type NodesProgress struct {
	env   *workflow.Env
	start time.Time

	mu       sync.Mutex
	done, of int
}

// NewNodesProgress counts the nodes of the plan that are not skipped.
func NewNodesProgress(env *workflow.Env, plan []*Node) *NodesProgress {
	p := &NodesProgress{env: env, start: env.Machine.Now()}
	for _, n := range plan {
		if !n.Skipped {
			p.of++
		}
	}
	return p
}

// Each changes nodes in their order, so many at a time. Once one has failed it begins no other, and those under way come to
// their end. What is skipped is left as it is.
func (p *NodesProgress) Each(list []*Node, atOnce int, change func(*Node) error) []FailedNode {
	return inParallel(list, atOnce, func(n *Node) error {
		if n.Skipped {
			p.env.Sayf("%s: skipped", n.Name)
			return nil
		}
		began := p.began(n)
		err := change(n)
		p.ended(n, began, err)
		return err
	})
}

// began notes that a node's turn has come, and returns when.
func (p *NodesProgress) began(n *Node) time.Time {
	now := p.env.Machine.Now()
	p.env.Event(workflow.Event{Time: now, Node: n.Name, Step: "Begun"})
	return now
}

// ended says how long a node took, and how long the others will by what those before have taken.
func (p *NodesProgress) ended(n *Node, began time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.env.Machine.Now()
	e := workflow.Event{Time: now, Node: n.Name, Step: "Done", Seconds: now.Sub(began).Seconds(), Of: p.of}
	if err != nil {
		e.Step, e.Error, e.Done = "Failed", err.Error(), p.done
		p.env.Event(e)
		return
	}
	if n.Gone {
		p.of--
		e.Step, e.Of, e.Done = "Gone", p.of, p.done
		p.env.Event(e)
		return
	}
	p.done++
	left := p.of - p.done
	e.Done, e.SecondsLeft = p.done, now.Sub(p.start).Seconds()/float64(p.done)*float64(left)
	p.env.Event(e)
	more := ""
	if left > 0 {
		more = fmt.Sprintf(", some %.0f s left", e.SecondsLeft)
	}
	p.env.Sayf("%s: done in %.1f s (%d of %d%s)", n.Name, e.Seconds, p.done, p.of, more)
}

// Undone tells a machine that is not upgraded from one on which something does not answer in time.
func (n FailedNode) Undone() bool {
	var known *finding.Error
	return !errors.As(n.Err, &known) || known.Code != finding.ExitNotInTime
}
