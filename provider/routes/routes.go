package routes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/provider/agents"
)

const (
	// patience of CreateRoute. Upstream's route controller calls it again 10 s later.
	patience = 5 * time.Second
	// lookEvery is how often CreateRoute looks at the reports.
	lookEvery = 50 * time.Millisecond
	// addOnsKnownSoon is how old the answer about DaemonSets may be while a Node has the condition of a network add-on:
	// one that was installed this moment must keep it.
	addOnsKnownSoon = 5 * time.Second
)

// Routes answers upstream's route controller from the reports of agents. It sets no route and removes none: agents take
// the Nodes for their orders, and so a route that the controller deletes in order to create it again is never missing.
type Routes struct {
	// AddOns tells which network add-on owns the routes.
	AddOns *AddOns
	// Nodes are the controller manager's.
	Nodes corelisters.NodeLister
	// Synced reports whether NodeAgents and NodeRoutes are known, and if not, why.
	Synced func() error

	reports reports

	mu      sync.Mutex
	cluster string // the name under which this cluster is asked for
	made    map[key][]corev1.NodeAddress
}

// key is a route.
type key struct {
	node types.NodeName
	cidr string
}

var _ cloudprovider.Routes = (*Routes)(nil)

// FollowLeases takes NodeAgentLeases as signs of life beside NodeAgents.
func (r *Routes) FollowLeases(beside *agents.Reader) error { return beside.OnLeases(&r.reports) }

// Follow takes the reports from an informer of NodeAgents or NodeRoutes that the caller starts. Both are needed.
func (r *Routes) Follow(objects cache.SharedIndexInformer) error {
	_, err := objects.AddEventHandler(&r.reports)
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
	if err := r.answerable(now); err != nil {
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
		return err // nothing was asked
	}
	klog.ErrorS(dissent, "Some agents have not set the route; most have", "node", route.TargetNode, "destination", route.DestinationCIDR)
	return nil
}

// DeleteRoute forgets the route. Agents remove it from the kernel holdTime after its Node went.
func (r *Routes) DeleteRoute(_ context.Context, _ string, route *cloudprovider.Route) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.made, key{route.TargetNode, route.DestinationCIDR})
	return nil
}

// is reports whether a name is that of this cluster, which is the first one that is asked for: that of --cluster-name.
func (r *Routes) is(clusterName string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cluster == "" {
		r.cluster = clusterName
	}
	return r.cluster == clusterName
}

// exists reports whether there is such a Node. What cannot be asked may exist.
func (r *Routes) exists(node string) bool {
	_, err := r.Nodes.Get(node)
	return !apierrors.IsNotFound(err)
}

// answerable returns why nobody can be asked about routes that there are. Where agents were never installed, there are
// none, and nobody has to be asked.
func (r *Routes) answerable(now time.Time) error {
	installed, err := r.reports.asked(now)
	if err == nil || installed {
		return err
	}
	nodes, err := r.Nodes.List(labels.Everything())
	if err != nil {
		return err
	}
	if slices.ContainsFunc(nodes, routeCreated) { // somebody has heard of them, before this program began
		return errUninstalled
	}
	return nil
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
	owner, err := r.owner(ctx, time.Now(), nodes)
	if err != nil {
		return err
	}
	if owner != "" {
		return fmt.Errorf("serve routes: %s; remove it, or set --configure-cloud-routes=false", owner)
	}
	return nil
}

// owner says which network add-on owns the routes; empty: none does. That is one with a DaemonSet, or one that most
// Nodes have the condition of, where that was written a moment ago, or the kernel has its routes: their agents say so.
// A single Node stops nobody, whatever its kubelet writes into it.
func (r *Routes) owner(ctx context.Context, now time.Time, nodes []*corev1.Node) (string, error) {
	age, owned, first := addOnsKnownFor, 0, ""
	for _, n := range nodes {
		condition := addOnCondition(n)
		if condition == nil {
			continue
		}
		age = addOnsKnownSoon
		if !recent(now, condition) && !r.reports.foreign(n.Name) {
			continue // it was left behind
		}
		owned++
		if said := describeCondition(n); first == "" || said < first {
			first = said
		}
	}
	owner, _, err := r.AddOns.find(ctx, age)
	if err != nil || owner != "" {
		return owner, err
	}
	if 2*owned > len(nodes) {
		return fmt.Sprintf("a network add-on owns the routes of %d of %d Nodes, first: %s", owned, len(nodes), first), nil
	}
	return "", nil
}
