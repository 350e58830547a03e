package routes

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodeutil "k8s.io/component-helpers/node/util"
)

// conditionOwner says which network add-on has written condition NetworkUnavailable into a Node, with reasons such as
// FlannelIsUp or CalicoIsDown. Upstream's route controller writes RouteCreated and NoRouteCreated. Empty: none has.
func conditionOwner(nodes []*corev1.Node) string {
	for _, n := range nodes {
		_, condition := nodeutil.GetNodeCondition(&n.Status, corev1.NodeNetworkUnavailable)
		if condition == nil {
			continue
		}
		for _, name := range []string{"Flannel", "Calico", "Cilium", "Weave"} {
			if strings.HasPrefix(condition.Reason, name) {
				return fmt.Sprintf("Node/%s has condition NetworkUnavailable with reason %s: a network add-on owns the routes",
					n.Name, condition.Reason)
			}
		}
	}
	return ""
}

// daemonSetOwner says which network add-on is installed that sets routes between machines, or has a network of its own
// above them. Empty: none is.
func daemonSetOwner(sets []appsv1.DaemonSet) string {
	for _, set := range sets {
		known := func(name string) bool { return strings.HasPrefix(set.Name, name) }
		if slices.ContainsFunc(networkAddOns(), known) {
			return fmt.Sprintf("DaemonSet/%s/%s is a network add-on that owns the routes", set.Namespace, set.Name)
		}
	}
	return ""
}

// networkAddOns lists the names of their DaemonSets, as their own manifests and charts have them; architectures follow.
func networkAddOns() []string {
	return []string{
		"kube-flannel", "canal", "calico-node", "cilium", "kube-router", "kindnet", "antrea-agent", "weave-net",
	}
}
