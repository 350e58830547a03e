package routes

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	nodeutil "k8s.io/component-helpers/node/util"
)

// conditionTime is how long a condition of a network add-on counts by itself. Add-ons write theirs when they start, and
// leave it behind when they are removed: after this time something else of them has to be there.
const conditionTime = 5 * time.Minute

// addOnCondition returns the condition NetworkUnavailable of a Node if a network add-on has written it, with reasons
// such as FlannelIsUp or CalicoIsDown. Upstream's route controller writes RouteCreated and NoRouteCreated.
func addOnCondition(n *corev1.Node) *corev1.NodeCondition {
	_, condition := nodeutil.GetNodeCondition(&n.Status, corev1.NodeNetworkUnavailable)
	if condition != nil && slices.ContainsFunc([]string{"Flannel", "Calico", "Cilium", "Weave"}, func(name string) bool {
		return strings.HasPrefix(condition.Reason, name)
	}) {
		return condition
	}
	return nil
}

// describeCondition says whose routes they are by the condition of a Node; empty where no network add-on wrote it.
func describeCondition(n *corev1.Node) string {
	condition := addOnCondition(n)
	if condition == nil {
		return ""
	}
	return fmt.Sprintf("Node/%s has condition NetworkUnavailable with reason %s: a network add-on owns the routes",
		n.Name, condition.Reason)
}

// recent reports whether a condition was written within conditionTime. One of the future is of a clock that is wrong, or
// is meant to count for ever.
func recent(now time.Time, condition *corev1.NodeCondition) bool {
	written := condition.LastHeartbeatTime.Time
	if condition.LastTransitionTime.After(written) {
		written = condition.LastTransitionTime.Time
	}
	return now.Sub(written).Abs() < conditionTime
}

// routeCreated reports whether upstream's route controller has called a Node's routes created, as it does once agents have
// reported them.
func routeCreated(n *corev1.Node) bool {
	_, condition := nodeutil.GetNodeCondition(&n.Status, corev1.NodeNetworkUnavailable)
	return condition != nil && condition.Reason == "RouteCreated"
}

// daemonSetOwner says which network add-on is installed that sets routes between machines, or has a network of its own
// above them. Empty: none is.
func daemonSetOwner(sets []appsv1.DaemonSet) string {
	for _, set := range sets {
		known := func(name string) bool { return strings.HasPrefix(set.Name, name) }
		if slices.ContainsFunc(networkAddOns(), known) && onMachines(set) {
			return fmt.Sprintf("DaemonSet/%s/%s is a network add-on that owns the routes", set.Namespace, set.Name)
		}
	}
	return ""
}

// onMachines tells an add-on from a DaemonSet that a tenant calls so: it is in a namespace that only administrators
// write, or has pods, which are in the network of their machines.
func onMachines(set appsv1.DaemonSet) bool {
	return set.Namespace == metav1.NamespaceSystem ||
		set.Spec.Template.Spec.HostNetwork && set.Status.CurrentNumberScheduled > 0
}

// networkAddOns lists the names of their DaemonSets, as their own manifests and charts have them; architectures follow.
func networkAddOns() []string {
	return []string{
		"kube-flannel", "canal", "calico-node", "cilium", "kube-router", "kindnet", "antrea-agent", "weave-net",
	}
}
