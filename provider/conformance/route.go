package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"
	nodeutil "k8s.io/component-helpers/node/util"
)

// routeRules are about routes to the pods of each machine.
func routeRules() []Rule {
	routes := (*bed).hasRoutes
	return []Rule{
		{
			Name:  "route-is-created",
			Why:   "The Node keeps the condition NetworkUnavailable, and with it a taint: no pod runs on the machine.",
			check: needs(routeIsCreated, routes),
		},
		{
			Name: "route-is-listed-as-created",
			Why: "ListRoutes must return node and CIDR as CreateRoute was given them: else a route is made again every 10 s, and " +
				"the other one deleted.",
			check: needs(routeIsListedAsCreated, routes),
		},
		{
			Name:  "route-is-deleted-with-its-node",
			Why:   "Traffic for a CIDR that has a new owner goes to a machine that is gone.",
			check: needs(routeIsDeletedWithItsNode, routes),
		},
		{
			Name:  "route-follows-addresses",
			Why:   "With EnableNodeAddresses a route to an old address is deleted, then created; without, it is never repaired.",
			check: needs(routeFollowsAddresses, routes),
		},
		{
			Name:  "routes-of-other-clusters-are-not-listed",
			Why:   "Routes that ListRoutes returns and no Node of this cluster needs are deleted, other clusters' routes included.",
			check: needs(routesOfOtherClustersAreNotListed, routes),
		},
		{
			Name:  "routes-are-not-lost-in-a-fault",
			Why:   "ListRoutes returned an empty list while it could not know: every route is created once more.",
			check: needs(routesAreNotLostInAFault, routes),
		},
	}
}

// podCIDR returns the machine's part of the clusterCIDR: that of the Nth is 10.244.N.0/24.
func podCIDR(m Machine) string {
	return "10.244." + strings.TrimPrefix(m.Name, "machine-") + ".0/24"
}

// routed makes a Node with a CIDR for pods, and waits until its network is available.
func (b *bed) routed(ctx context.Context) (Machine, error) {
	m, err := b.machine()
	if err != nil {
		return m, err
	}
	err = b.join(ctx, m, "", func(n *corev1.Node) { n.Spec.PodCIDR, n.Spec.PodCIDRs = podCIDR(m), []string{podCIDR(m)} })
	if err != nil {
		return m, err
	}
	return m, b.until(ctx, fmt.Sprintf("Node/%s has a route", m.Name), func(ctx context.Context) error {
		node, err := b.client.CoreV1().Nodes().Get(ctx, m.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		_, condition := nodeutil.GetNodeCondition(&node.Status, corev1.NodeNetworkUnavailable)
		if condition == nil || condition.Status != corev1.ConditionFalse {
			return fmt.Errorf("condition NetworkUnavailable is %+v, last error of CreateRoute: "+
				"%w", condition, b.seen.lastError("CreateRoute", m.Name))
		}
		return nil
	})
}

// routeIsCreated does it for two machines: the second must not need the table to be empty.
func routeIsCreated(ctx context.Context, b *bed) error {
	for range 2 {
		if _, err := b.routed(ctx); err != nil {
			return err
		}
	}
	return nil
}

// routeTo returns the machine's route, or nil.
func (b *bed) routeTo(ctx context.Context, cluster string, m Machine) (*cloudprovider.Route, error) {
	routes, _ := b.seen.Routes()
	list, err := routes.ListRoutes(ctx, cluster)
	if err != nil {
		return nil, fmt.Errorf("ListRoutes: %w", err)
	}
	for _, route := range list {
		if route.TargetNode == nodeName(m) && route.DestinationCIDR == podCIDR(m) {
			return route, nil
		}
	}
	return nil, nil
}

func routeIsListedAsCreated(ctx context.Context, b *bed) error {
	m, err := b.routed(ctx)
	if err != nil {
		return err
	}
	// It may be made again as long as the node controller gives the Node other addresses.
	err = b.until(ctx, fmt.Sprintf("the route to Node/%s is left alone", m.Name), func(ctx context.Context) error {
		created, deleted := b.seen.count("CreateRoute", m.Name), b.seen.count("DeleteRoute", m.Name)
		b.settle(ctx, "ListRoutes", clusterName)
		created, deleted = b.seen.count("CreateRoute", m.Name)-created, b.seen.count("DeleteRoute", m.Name)-deleted
		if created+deleted > 0 {
			return fmt.Errorf("it was created %d and deleted %d times more", created, deleted)
		}
		return ctx.Err() // without the time to look, nothing was seen
	})
	if err != nil {
		return err
	}
	route, err := b.routeTo(ctx, clusterName, m)
	if err == nil && route == nil {
		err = fmt.Errorf("ListRoutes has no route to Node/%s for %s", m.Name, podCIDR(m))
	}
	return err
}

func routeIsDeletedWithItsNode(ctx context.Context, b *bed) error {
	m, err := b.routed(ctx)
	if err != nil {
		return err
	}
	if err := b.client.CoreV1().Nodes().Delete(ctx, m.Name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return b.until(ctx, "its route is deleted", func(ctx context.Context) error {
		route, err := b.routeTo(ctx, clusterName, m)
		if err == nil && route != nil {
			err = fmt.Errorf("ListRoutes has %+v", *route)
		}
		return err
	})
}

// routeFollowsAddresses gives the Node another address, as a kubelet does.
func routeFollowsAddresses(ctx context.Context, b *bed) error {
	m, err := b.routed(ctx)
	if err != nil {
		return err
	}
	route, err := b.routeTo(ctx, clusterName, m)
	if err != nil {
		return err
	}
	if route == nil || !route.EnableNodeAddresses {
		return NotOffered{"Route.EnableNodeAddresses"}
	}
	b.settle(ctx, "ListRoutes", clusterName)
	before := b.seen.count("CreateRoute", m.Name)
	patch := []byte(`{"status":{"addresses":[{"type":"ExternalIP","address":"198.18.9.9"}]}}`)
	err = b.until(ctx, "its route is created again", func(ctx context.Context) error {
		if b.seen.count("CreateRoute", m.Name) > before {
			return nil
		}
		// The node controller takes back what the provider does not say: until it is seen, again.
		if _, err := b.client.CoreV1().Nodes().PatchStatus(ctx, m.Name, patch); err != nil {
			return err
		}
		return errors.New("CreateRoute was not called again")
	})
	if err != nil {
		return err
	}
	// Both at once would leave either two routes or none (kubernetes/kubernetes#98359).
	if order := b.seen.order(m.Name, "CreateRoute", "DeleteRoute"); len(order) < 3 || order[1] != "DeleteRoute" {
		return fmt.Errorf("got the order %v, want that the old route is deleted before the new one is created", order)
	}
	return b.until(ctx, "its route has the addresses of the Node", func(ctx context.Context) error {
		return b.targets(ctx,
			m)
	})
}

// targets compares the addresses of route and Node, which the controller does without regard to their order.
func (b *bed) targets(ctx context.Context, m Machine) error {
	node, err := b.client.CoreV1().Nodes().Get(ctx, m.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	route, err := b.routeTo(ctx, clusterName, m)
	if err != nil {
		return err
	}
	if route == nil || len(route.TargetNodeAddresses) != len(node.Status.Addresses) {
		return fmt.Errorf("the addresses of Node/%s are %v, and its route is %+v", m.Name, node.Status.Addresses, route)
	}
	return nil
}

func routesOfOtherClustersAreNotListed(ctx context.Context, b *bed) error {
	m, err := b.routed(ctx)
	if err != nil {
		return err
	}
	route, err := b.routeTo(ctx, "another-cluster", m)
	if err == nil && route != nil {
		err = fmt.Errorf("ListRoutes for another cluster returns the route to Node/%s of this one", m.Name)
	}
	return err
}

func routesAreNotLostInAFault(ctx context.Context, b *bed) error {
	m, err := b.routed(ctx)
	if err != nil {
		return err
	}
	if _, err := b.anyFault(); err != nil {
		return err
	}
	routes, _ := b.seen.Routes()
	if list, err := routes.ListRoutes(ctx, clusterName); err == nil && len(list) == 0 {
		return fmt.Errorf("ListRoutes during a fault is empty, and there is a route to Node/%s: want an error", m.Name)
	}
	return nil
}
