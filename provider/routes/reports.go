package routes

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// liveTime is how old a report may be, since it was seen here for the first time. Agents write theirs every 20 seconds.
// Their clocks decide nothing: one that is a minute behind is not dead, and one that is ahead does not live on.
const liveTime = time.Minute

// reports are what the agents say, by Node. The informers of NodeAgents and NodeRoutes write it.
type reports struct {
	mu     sync.Mutex
	alive  map[string]sign
	byNode map[string]report
	heard  bool // there was a sign of life
}

// sign is one of life, of a NodeAgent.
type sign struct {
	renewed time.Time // by the agent's clock
	seen    time.Time // by ours, when renewed became what it is
}

// report is one NodeRoutes, with its lists as maps by destination.
type report struct {
	owner    types.UID // of the Node for which the object was made
	routes   map[string]v1alpha1.AgentRoute
	problems map[string]v1alpha1.RouteProblem
}

// errUninstalled: the kernels have the routes that agents left there. Nothing is known of them, and nothing said.
var errUninstalled = errors.New("no node agent reports any more, so they were uninstalled; their routes stay as they " +
	"left them: `ccmadm init --routes` installs agents, --configure-cloud-routes=false stops this controller")

// OnAdd takes a report.
func (r *reports) OnAdd(object any, _ bool) { r.take(time.Now(), object) }

// OnUpdate takes the new report.
func (r *reports) OnUpdate(_, object any) { r.take(time.Now(), object) }

// OnDelete forgets an agent whose Node is gone.
func (r *reports) OnDelete(object any) {
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch object := object.(type) {
	case *v1alpha1.NodeAgent:
		delete(r.alive, object.Name)
	case *v1alpha1.NodeRoutes:
		delete(r.byNode, object.Name)
	}
}

func (r *reports) take(now time.Time, object any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch object := object.(type) {
	case *v1alpha1.NodeAgent:
		renewed := object.Status.RenewTime.Time
		if before, known := r.alive[object.Name]; known && before.renewed.Equal(renewed) {
			return
		}
		if r.alive == nil {
			r.alive = map[string]sign{}
		}
		r.alive[object.Name] = sign{renewed: renewed, seen: now}
		r.heard = true
	case *v1alpha1.NodeRoutes:
		if r.byNode == nil {
			r.byNode = map[string]report{}
		}
		r.byNode[object.Name] = newReport(object)
	}
}

func newReport(object *v1alpha1.NodeRoutes) report {
	said := report{
		routes:   make(map[string]v1alpha1.AgentRoute, len(object.Routes)),
		problems: make(map[string]v1alpha1.RouteProblem, len(object.Problems)),
	}
	for _, owner := range object.OwnerReferences {
		if owner.Kind == "Node" && owner.Name == object.Name {
			said.owner = owner.UID
		}
	}
	for _, route := range object.Routes {
		said.routes[route.Destination] = route
	}
	for _, problem := range object.Problems {
		said.problems[problem.Destination] = problem
	}
	return said
}

// asked returns why nobody can be: no agent has ever reported, or none lately, or none does any more. installed is false
// for the first of them only, where there is nothing to be left as it is.
func (r *reports) asked(now time.Time) (installed bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range r.alive {
		if r.live(now, name) {
			return true, nil
		}
	}
	if len(r.alive) == 0 && r.heard {
		return true, errUninstalled
	}
	if len(r.alive) == 0 {
		return false, errors.New("no node agent has ever reported: `ccmadm init --routes` installs it")
	}
	return true, fmt.Errorf("none of %d node agents has reported for %s, by this machine's clock", len(r.alive), liveTime)
}

// live says whether an agent has given a sign of life lately.
func (r *reports) live(now time.Time, name string) bool {
	sign, there := r.alive[name]
	return there && now.Sub(sign.seen) < liveTime
}

// foreign says whether the agent of a Node has found routes of others, or a network add-on that owns them.
func (r *reports) foreign(node string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, problem := range r.byNode[node].problems {
		if problem.Reason == Foreign {
			return true
		}
	}
	return false
}

// former says that a report is that of a machine before this Node: its kernel may have none of these routes by now.
func (r report) former(node *corev1.Node) bool { return r.owner != "" && r.owner != node.UID }

// onlyOfItself says that a report is about the agent's own Node rather than about others: the agent has not begun, which
// it shows by the routes that it has, or it fails for more Nodes than it reaches. One machine in another network, or
// with a broken agent, must not make all others unavailable. Nodes are counted: one may have many ranges that no agent
// wants.
func (r report) onlyOfItself() bool {
	reached, failed := map[string]bool{}, map[string]bool{}
	for _, route := range r.routes {
		reached[route.Node] = true
	}
	for _, problem := range r.problems {
		failed[problem.Node] = true
	}
	return len(reached) == 0 || len(failed) > len(reached)
}

// acknowledged returns no error if the range of a Node's pods can be reached: the agent of that Node has set its routes,
// and those who have no route to an address of the Node are not most of the live agents, or only one. That one, or those
// few, are dissent: a single agent must not make others' Nodes unavailable, whatever it says. One that is dead is not
// asked about others, and its own Node keeps what it has: so does its kernel. Reports of Nodes that exists does not know
// are only not deleted yet.
func (r *reports) acknowledged(now time.Time, node *corev1.Node, destination string, exists func(node string) bool) (
	dissent, err error,
) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if prefix, err := netip.ParsePrefix(destination); err == nil {
		destination = prefix.Masked().String() // as agents write it
	}
	if err := r.own(node, destination); err != nil {
		return nil, err
	}
	asked, missing := 0, []string(nil)
	for name, said := range r.byNode {
		if name != node.Name && (!r.live(now, name) || said.onlyOfItself() || !exists(name)) {
			continue
		}
		asked++
		if !said.reaches(node, destination) {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	first := slices.Min(missing)
	err = fmt.Errorf("%d of %d agents have no route to Node/%s, first that of Node/%s: %s", len(missing), asked, node.Name,
		first, r.byNode[first].why(destination))
	if len(missing) < 2 || 2*len(missing) <= asked {
		return err, nil
	}
	return nil, err
}

// own returns what is wrong with a Node by its own agent.
func (r *reports) own(node *corev1.Node, destination string) error {
	own, there := r.byNode[node.Name]
	switch {
	case !there:
		return fmt.Errorf("no node agent has ever reported from Node/%s", node.Name)
	case own.former(node):
		return fmt.Errorf("no node agent has reported from Node/%s since it was made: the report is of before",
			node.Name)
	case len(own.routes)+len(own.problems) == 0:
		return fmt.Errorf("the agent of Node/%s has set no route yet, not even for its own pods", node.Name)
	case own.onlyOfItself():
		return fmt.Errorf("from Node/%s, most others are out of reach: %w", node.Name, own.firstProblem())
	case !own.reaches(node, destination):
		return fmt.Errorf("the agent of Node/%s has no route for its own pods: %s", node.Name, own.why(destination))
	}
	return nil
}

// reaches says whether there is a route to a Node's pods.
func (r report) reaches(node *corev1.Node, destination string) bool {
	route, has := r.routes[destination]
	return has && route.Node == node.Name && leadsTo(route, node)
}

// why there is none.
func (r report) why(destination string) string {
	if problem, known := r.problems[destination]; known {
		return problem.Reason + ": " + problem.Message
	}
	return "it has not reported one yet"
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
