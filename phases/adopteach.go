package phases

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// each changes the nodes in the order of the plan: workers as many at a time as was asked for, control planes alone.
// Where one does not come through, no other is begun, and those under way come to their end.
func (a *adopter) each(ctx context.Context, plan []*plannedNode,
	change func(context.Context, *plannedNode) error,
) error {
	progress := newNodesProgress(a.d, plan)
	one := func(n *plannedNode) error {
		if n.skipped {
			a.d.Sayf("%s: skipped", n.name)
			return nil
		}
		began := progress.began(n)
		var err error
		if !a.isGone(ctx, n, nil) {
			err = change(ctx, n)
		}
		progress.ended(n, began, err)
		return err
	}
	workers := slices.IndexFunc(plan, func(n *plannedNode) bool { return n.controlPlane || n.here })
	if workers < 0 {
		workers = len(plan)
	}
	failed := together(plan[:workers], adoptionOf(a.d).Parallel, one)
	if len(failed) == 0 {
		failed = together(plan[workers:], 1, one)
	}
	if len(failed) == 0 {
		return nil
	}
	return a.stopped(failed)
}

// notThrough is a node that did not come through.
type notThrough struct {
	*plannedNode

	err error
}

// together changes nodes, so many at a time, and begins no other once one has failed.
func together(list []*plannedNode, atOnce int, change func(*plannedNode) error) []notThrough {
	var mu sync.Mutex
	var failed []notThrough
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
				failed = append(failed, notThrough{n, err})
			}
		})
	}
	underWay.Wait()
	return failed
}

// stopped says how to go on and how to go back.
func (a *adopter) stopped(failed []notThrough) error {
	last := "the nodes before are done, and those after were not touched; the same command goes on from here"
	var hints []string
	if !adoptionOf(a.d).Leave {
		var names []string
		for _, n := range failed {
			names = append(names, n.name)
			if n.tainted {
				hints = append(hints, fmt.Sprintf("no pod is scheduled to %s as long as it has its taint: "+
					"kubectl taint node %[1]s %s-", n.name, v1alpha1.UninitializedTaint))
			}
		}
		last += "; `ccmadm node plain` on " + strings.Join(names, ", ") + " takes the kubelet back, `ccmadm leave` all"
	}
	return stoppedAt(failed, hints, last)
}

// stoppedAt is the error of nodes that did not come through, with hints of the caller's, and last how to go on. What a
// machine refuses was refused with nothing changed there; here something was by then, and nodes may be done.
func stoppedAt(failed []notThrough, hints []string, last string) *finding.Error {
	code := finding.ExitError
	var all []error
	for _, n := range failed {
		all = append(all, fmt.Errorf("node %s: %w", n.name, n.err))
		var known *finding.Error
		if !errors.As(n.err, &known) {
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

// nodesProgress counts the nodes of a run that are to be changed. Its methods may be called at the same time.
type nodesProgress struct {
	d     *Data
	start time.Time

	mu       sync.Mutex
	done, of int
}

func newNodesProgress(d *Data, plan []*plannedNode) *nodesProgress {
	p := &nodesProgress{d: d, start: d.Machine.Now()}
	for _, n := range plan {
		if !n.skipped {
			p.of++
		}
	}
	return p
}

func (p *nodesProgress) began(n *plannedNode) time.Time {
	now := p.d.Machine.Now()
	p.d.event(Event{Time: now, Node: n.name, Step: "Begun"})
	return now
}

// ended says how long a node took, and how long the others will by what those before have taken.
func (p *nodesProgress) ended(n *plannedNode, began time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.d.Machine.Now()
	e := Event{Time: now, Node: n.name, Step: "Done", Seconds: now.Sub(began).Seconds(), Of: p.of}
	if err != nil {
		e.Step, e.Error, e.Done = "Failed", err.Error(), p.done
		p.d.event(e)
		return
	}
	if n.gone {
		p.of--
		e.Step, e.Of, e.Done = "Gone", p.of, p.done
		p.d.event(e)
		return
	}
	p.done++
	left := p.of - p.done
	e.Done, e.SecondsLeft = p.done, now.Sub(p.start).Seconds()/float64(p.done)*float64(left)
	p.d.event(e)
	more := ""
	if left > 0 {
		more = fmt.Sprintf(", some %.0f s left", e.SecondsLeft)
	}
	p.d.Sayf("%s: done in %.1f s (%d of %d%s)", n.name, e.Seconds, p.done, p.of, more)
}
