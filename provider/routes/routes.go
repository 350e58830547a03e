package routes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"
)

const (
	// patience of CreateRoute. Upstream's route controller calls it again 10 s later.
	patience = 5 * time.Second
	// lookEvery is how often CreateRoute looks at the reports.
	lookEvery = 50 * time.Millisecond
	// addOnsKnownFor is how long the answer about DaemonSets holds.
	addOnsKnownFor = time.Minute
	// pageSize of their list.
	pageSize = 500
)

// Routes answers upstream's route controller from the reports of agents. It sets no route and removes none: agents take
// the Nodes for their orders, and so a route that the controller deletes in order to create it anew is never missing.
type Routes struct {
	// Client lists DaemonSets.
	Client kubernetes.Interface
	// Nodes are the controller manager's.
	Nodes corelisters.NodeLister
	// Synced says whether the NodeAgents are known, and if not, why.
	Synced func() error

	reports reports

	mu       sync.Mutex
	cluster  string // the name under which this cluster is asked for
	made     map[key][]corev1.NodeAddress
	owner    string // what owns the routes beside us, as of looked
	lookedAt time.Time
}

// key is a route.
type key struct {
	node types.NodeName
	cidr string
}

var _ cloudprovider.Routes = (*Routes)(nil)

// Follow takes the reports from an informer of NodeAgents that somebody starts.
func (r *Routes) Follow(agents cache.SharedIndexInformer) error {
	_, err := agents.AddEventHandler(&r.reports)
	return err
}

// ListRoutes returns the routes that were asked for and that most live agents report, with the addresses for which they
// were asked for, so that upstream sees them change. A new leader has been asked for none: it is, for each of them, and
// CreateRoute returns at once. With an error upstream changes nothing: no route, and no
// condition NetworkUnavailable. It is the answer while agents cannot be asked, and where a network add-on owns the
// routes.
func (r *Routes) ListRoutes(ctx context.Context, clusterName string) ([]*cloudprovider.Route, error) {
	if err := r.may(ctx); err != nil {
		return nil, err
	}
	if !r.is(clusterName) {
		return nil, nil
	}
	now := time.Now()
	if installed, err := r.reports.asked(now); err != nil && installed {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []*cloudprovider.Route
	for k, addresses := range r.made {
		node, err := r.Nodes.Get(string(k.node))
		if apierrors.IsNotFound(err) {
			delete(r.made, k) // its agents need nobody to tell them
			continue
		}
		if err != nil {
			return nil, err
		}
		if _, err := r.reports.acknowledged(now, node, k.cidr, r.exists); err == nil {
			list = append(list, &cloudprovider.Route{
				Name: node.Name + " " + k.cidr, TargetNode: k.node, DestinationCIDR: k.cidr,
				EnableNodeAddresses: true, TargetNodeAddresses: addresses,
			})
		}
	}
	return list, nil
}

// CreateRoute waits until all live agents report the route, for five seconds at most. Agents that are dead do not hold
// it up, and then, neither do few that lack it; where there is none at all, it says so, and upstream sets
// NetworkUnavailable.
func (r *Routes) CreateRoute(ctx context.Context, clusterName, _ string, route *cloudprovider.Route) error {
	if err := r.may(ctx); err != nil {
		return err
	}
	if !r.is(clusterName) {
		return fmt.Errorf("create route to %s: this is not cluster %q", route.DestinationCIDR, clusterName)
	}
	if err := r.acknowledged(ctx, route); err != nil {
		return fmt.Errorf("create route to %s: %w", route.DestinationCIDR, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.made == nil {
		r.made = map[key][]corev1.NodeAddress{}
	}
	r.made[key{route.TargetNode, route.DestinationCIDR}] = route.TargetNodeAddresses
	return nil
}

// acknowledged waits for the agents to report a route.
func (r *Routes) acknowledged(ctx context.Context, route *cloudprovider.Route) error {
	var dissent, missing error
	err := wait.PollUntilContextTimeout(ctx, lookEvery, patience, true, func(context.Context) (bool, error) {
		now := time.Now()
		if _, err := r.reports.asked(now); err != nil {
			return false, err
		}
		node, err := r.Nodes.Get(string(route.TargetNode))
		if err != nil {
			return false, err
		}
		dissent, missing = r.reports.acknowledged(now, node, route.DestinationCIDR, r.exists)
		return errors.Join(dissent, missing) == nil, nil
	})
	switch {
	case !wait.Interrupted(err):
		return err
	case missing != nil:
		return missing
	case dissent == nil:
		return err // nobody was asked
	}
	klog.ErrorS(dissent, "Most agents have the route", "node", route.TargetNode, "destination", route.DestinationCIDR)
	return nil
}

// DeleteRoute forgets the route. Agents remove it from the kernel holdTime after its Node went.
func (r *Routes) DeleteRoute(_ context.Context, _ string, route *cloudprovider.Route) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.made, key{route.TargetNode, route.DestinationCIDR})
	return nil
}

// is says whether a name is that of this cluster, which is the first one that is asked for: that of --cluster-name.
func (r *Routes) is(clusterName string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cluster == "" {
		r.cluster = clusterName
	}
	return r.cluster == clusterName
}

// exists says whether there is such a Node. What cannot be asked may exist.
func (r *Routes) exists(node string) bool {
	_, err := r.Nodes.Get(node)
	return !apierrors.IsNotFound(err)
}

// may refuses what would be a fight with a network add-on, and what cannot be known.
func (r *Routes) may(ctx context.Context) error {
	if err := r.Synced(); err != nil {
		return err
	}
	nodes, err := r.Nodes.List(labels.Everything())
	if err != nil {
		return err
	}
	owner := conditionOwner(nodes)
	if owner == "" {
		owner, err = r.addOn(ctx)
	}
	if err != nil {
		return err
	}
	if owner != "" {
		return fmt.Errorf("serve routes: %s; remove it, or set --configure-cloud-routes=false", owner)
	}
	return nil
}

// addOn asks which DaemonSet owns the routes, once in a while.
func (r *Routes) addOn(ctx context.Context) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock() // callers that come at once wait for one answer
	if time.Since(r.lookedAt) < addOnsKnownFor {
		return r.owner, nil
	}
	options := metav1.ListOptions{Limit: pageSize}
	for {
		list, err := r.Client.AppsV1().DaemonSets("").List(ctx, options)
		if err != nil {
			return "", fmt.Errorf("look for network add-ons: %w", err)
		}
		if r.owner = daemonSetOwner(list.Items); r.owner != "" || list.Continue == "" {
			break
		}
		options.Continue = list.Continue
	}
	r.lookedAt = time.Now()
	return r.owner, nil
}
