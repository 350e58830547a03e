package routes

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

const (
	// calmTime is how long the routes to a Node stay as they are until what they did before no longer counts.
	calmTime = time.Minute
	// freeChanges is how often they change without a calmTime between until they stay as they are reported.
	freeChanges = 5
)

// reported is what there is in the kernel, and what is not.
type reported struct {
	routes   []v1alpha1.AgentRoute
	problems []v1alpha1.RouteProblem
}

// damping keeps routes that change all the time from being reported each time, by the Node that has the pods: a kubelet may give its Node
// other addresses each second, and all agents would write all of their routes. The kernel has them as they are, and routes to other Nodes
// are reported at once.
type damping map[string]*damped

// damped are the routes to a Node as they were seen last and since when, and as they are reported.
type damped struct {
	seen, said reported
	since      time.Time
	changes    int
}

// damp returns what is to be reported.
func (d damping) damp(now time.Time, all *reported) *reported {
	current := byNode(all)
	for node := range d {
		if current[node] == nil {
			current[node] = &reported{} // none now
		}
	}
	said := &reported{}
	held := false
	for node, seen := range current {
		m := d[node]
		if m == nil {
			m = &damped{seen: *seen, said: *seen, since: now}
			d[node] = m
		}
		held = m.see(now, *seen) || held
		said.routes = append(said.routes, m.said.routes...)
		said.problems = append(said.problems, m.said.problems...)
		if m.said.empty() && m.seen.empty() && m.changes == 0 {
			delete(d, node)
		}
	}
	if !held {
		return all
	}
	said.sort()
	return said
}

// see takes in what the routes are now, and reports whether others are reported.
func (m *damped) see(now time.Time, seen reported) (held bool) {
	if now.Sub(m.since) >= calmTime {
		m.changes = 0
	}
	if !m.seen.equal(seen) {
		m.seen, m.since = seen, now
	}
	// What is well again is reported in any case: a Node is not kept out for routes that are there.
	recovers := len(m.said.problems) > 0 && len(seen.problems) == 0
	switch {
	case m.said.equal(seen):
		return false
	case m.changes < freeChanges || recovers:
		m.changes++
		m.said = seen
		return false
	}
	return true
}

// byNode splits it by the Nodes that have the pods.
func byNode(all *reported) map[string]*reported {
	nodes := map[string]*reported{}
	of := func(node string) *reported {
		if nodes[node] == nil {
			nodes[node] = &reported{}
		}
		return nodes[node]
	}
	for _, r := range all.routes {
		of(r.Node).routes = append(of(r.Node).routes, r)
	}
	for _, p := range all.problems {
		of(p.Node).problems = append(of(p.Node).problems, p)
	}
	return nodes
}

func (r *reported) empty() bool { return len(r.routes) == 0 && len(r.problems) == 0 }

func (r *reported) equal(other reported) bool {
	return slices.Equal(r.routes, other.routes) && slices.Equal(r.problems, other.problems)
}

// sort brings it into the order of a report.
func (r *reported) sort() {
	prefix := func(text string) netip.Prefix {
		p, _ := netip.ParsePrefix(text) // it was written from one
		return p
	}
	slices.SortFunc(r.routes, func(a, b v1alpha1.AgentRoute) int {
		return prefix(a.Destination).Compare(prefix(b.Destination))
	})
	sortProblems(r.problems)
}

func sortProblems(problems []v1alpha1.RouteProblem) {
	slices.SortFunc(problems, func(a, b v1alpha1.RouteProblem) int {
		return strings.Compare(a.Destination+" "+a.Node, b.Destination+" "+b.Node)
	})
}
