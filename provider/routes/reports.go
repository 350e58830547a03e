package routes

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// reports are what the agents say, by Node. The informers of NodeAgents, NodeAgentLeases and NodeRoutes write it.
type reports struct {
	mu     sync.Mutex
	alive  objects.Liveness
	byNode map[string]report
	heard  bool // there was a sign of life
}

// report is one NodeRoutes, with its lists as maps by destination.
type report struct {
	owner    types.UID // of the Node for which the object was made
	routes   map[string]v1alpha1.AgentRoute
	problems map[string]v1alpha1.RouteProblem
	// ofItself: the report is about the agent's own Node rather than about others: the agent has not begun, which it shows by the routes
	// that it has, or it fails for more Nodes than it reaches. One machine in another network, or with a broken agent, must not make all
	// others unavailable. It is asked for every report about every Node: with 1,000 Nodes counting it there took minutes.
	ofItself bool
}

// errUninstalled: the kernels have the routes that agents left there. Nothing is known of them, and nothing said.
var errUninstalled = errors.New("no node agent reports any more: they were uninstalled, and their routes stay as they " +
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
		if r.alive == nil {
			r.alive = objects.Liveness{}
		}
		r.alive.Observe(now, object)
		r.heard = true
	case *v1alpha1.NodeAgentLease:
		r.alive.ObserveLease(now, object)
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
	reached, failed := map[string]bool{}, map[string]bool{} // Nodes: one may have many ranges that no agent wants
	for _, route := range object.Routes {
		said.routes[route.Destination] = route
		reached[route.Node] = true
	}
	for _, problem := range object.Problems {
		said.problems[problem.Destination] = problem
		failed[problem.Node] = true
	}
	said.ofItself = len(reached) == 0 || len(failed) > len(reached)
	return said
}

// asked returns why nobody can be: no agent has ever reported, or none lately, or none does any more. installed is false
// for the first of them only, where there is nothing to be left as it is.
func (r *reports) asked(now time.Time) (installed bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range r.alive {
		if r.alive.Live(now, name) {
			return true, nil
		}
	}
	if len(r.alive) == 0 && r.heard {
		return true, errUninstalled
	}
	if len(r.alive) == 0 {
		return false, errors.New("no node agent has ever reported: `ccmadm init --routes` installs it")
	}
	return true, fmt.Errorf("none of %d node agents has reported for %s, by this machine's clock", len(r.alive), objects.LiveTime)
}

// foreign reports whether the agent of a Node has found routes of others, or a network add-on that owns them.
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
