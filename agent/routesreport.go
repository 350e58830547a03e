package agent

import (
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// routesPause is the shortest time between two reports of routes, which are long in a large cluster, and which all
// agents write at once when a Node comes.
const routesPause = time.Second

type routesReporter = ownObject[*v1alpha1.NodeRoutes]

// newRoutesReporter writes the NodeRoutes of its own Node: those that current returns. Until that knows them they stay as they are, as the
// routes of an agent that starts again do.
func newRoutesReporter(client *objects.Client, node string, nodes cache.SharedIndexInformer,
	current func() ([]v1alpha1.AgentRoute, []v1alpha1.RouteProblem, bool),
) (*routesReporter, error) {
	r, err := newOwnObject[*v1alpha1.NodeRoutes, *v1alpha1.NodeRoutesList](node, nodes, &v1alpha1.NodeRoutes{}, client.NodeRoutes)
	if err != nil {
		return nil, err
	}
	r.current = func() (*v1alpha1.NodeRoutes, bool) {
		routes, problems, known := current()
		return &v1alpha1.NodeRoutes{Routes: routes, Problems: problems}, known
	}
	r.same = func(a, b *v1alpha1.NodeRoutes) bool { return same(a.Routes, b.Routes) && same(a.Problems, b.Problems) }
	r.pause = func(*v1alpha1.NodeRoutes) time.Duration { return routesPause }
	return r, nil
}
