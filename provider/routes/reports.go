package routes

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// liveTime is how old a report may be. Agents write theirs every 20 seconds.
const liveTime = time.Minute

// reports are what the agents say, by Node. The informer of NodeAgents writes it.
type reports struct {
	mu     sync.Mutex
	byNode map[string]report
}

// report is one NodeAgent, with its lists as maps by destination.
type report struct {
	renewed  time.Time
	routes   map[string]v1alpha1.AgentRoute
	problems map[string]v1alpha1.RouteProblem
}

// OnAdd takes a report.
func (r *reports) OnAdd(object any, _ bool) { r.take(object) }

// OnUpdate takes the new report.
func (r *reports) OnUpdate(_, object any) { r.take(object) }

// OnDelete forgets an agent whose Node is gone.
func (r *reports) OnDelete(object any) {
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	if agent, ok := object.(*v1alpha1.NodeAgent); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.byNode, agent.Name)
	}
}

func (r *reports) take(object any) {
	agent, ok := object.(*v1alpha1.NodeAgent)
	if !ok {
		return
	}
	said := report{
		renewed:  agent.Status.RenewTime.Time,
		routes:   make(map[string]v1alpha1.AgentRoute, len(agent.Status.Routes)),
		problems: make(map[string]v1alpha1.RouteProblem, len(agent.Status.RouteProblems)),
	}
	for _, route := range agent.Status.Routes {
		said.routes[route.Destination] = route
	}
	for _, problem := range agent.Status.RouteProblems {
		said.problems[problem.Destination] = problem
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byNode == nil {
		r.byNode = map[string]report{}
	}
	r.byNode[agent.Name] = said
}

// asked returns why nobody can be: no agent has ever reported, or none lately. Both leave NetworkUnavailable as it is
// where it is known; installed says which.
func (r *reports) asked(now time.Time) (installed bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, said := range r.byNode {
		if said.live(now) {
			return true, nil
		}
	}
	if len(r.byNode) == 0 {
		return false, errors.New("no node agent has ever reported: `ccmadm init --routes` installs it")
	}
	return true, fmt.Errorf("none of %d node agents has reported for %s, by this machine's clock", len(r.byNode), liveTime)
}

func (r report) live(now time.Time) bool { return now.Sub(r.renewed) < liveTime }

// onlyOfItself says that a report is about the agent's own Node rather than about others: the agent has not begun, which
// it shows by the routes that it has, or it fails for more Nodes than it reaches. One machine in another network, or
// with a broken agent, must not make all others unavailable.
func (r report) onlyOfItself() bool { return len(r.routes) == 0 || len(r.problems) > len(r.routes) }

// acknowledged returns nil if the range of a Node's pods can be reached: the agent of that Node has set its routes, and
// the live agents of all others have one to an address of the Node. One that is dead is not asked about others, and its
// own Node keeps what it has: so does its kernel. Reports of Nodes that exists does not know are only not deleted yet.
func (r *reports) acknowledged(now time.Time, node *corev1.Node, destination string, exists func(node string) bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	own, there := r.byNode[node.Name]
	if prefix, err := netip.ParsePrefix(destination); err == nil {
		destination = prefix.Masked().String() // as agents write it
	}
	switch {
	case !there:
		return fmt.Errorf("no node agent has ever reported from Node/%s", node.Name)
	case len(own.routes)+len(own.problems) == 0:
		return fmt.Errorf("the agent of Node/%s has set no route yet, not even for its own pods", node.Name)
	case own.onlyOfItself():
		return fmt.Errorf("from Node/%s, most others are out of reach: %w", node.Name, own.firstProblem())
	}
	asked, missing := 0, []string(nil)
	for name, said := range r.byNode {
		if name != node.Name && (!said.live(now) || said.onlyOfItself() || !exists(name)) {
			continue
		}
		asked++
		if route, has := said.routes[destination]; !has || route.Node != node.Name || !leadsTo(route, node) {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	first := slices.Min(missing)
	why := "it has not reported one yet"
	if problem, known := r.byNode[first].problems[destination]; known {
		why = problem.Reason + ": " + problem.Message
	}
	return fmt.Errorf("%d of %d agents have no route to Node/%s, first that of Node/%s: %s", len(missing), asked, node.Name,
		first, why)
}

// leadsTo says whether the next hop is still the Node's. Its own agent reports none.
func leadsTo(route v1alpha1.AgentRoute, node *corev1.Node) bool {
	if route.Via == "" {
		return true
	}
	return slices.ContainsFunc(node.Status.Addresses, func(a corev1.NodeAddress) bool {
		return a.Type == corev1.NodeInternalIP && a.Address == route.Via
	})
}

// firstProblem is one of them, always the same.
func (r report) firstProblem() error {
	var list []v1alpha1.RouteProblem
	for _, problem := range r.problems {
		list = append(list, problem)
	}
	first := slices.MinFunc(list, func(a, b v1alpha1.RouteProblem) int {
		return slices.Compare([]string{a.Destination, a.Node}, []string{b.Destination, b.Node})
	})
	return fmt.Errorf("route to %s: %s: %s", first.Destination, first.Reason, first.Message)
}
