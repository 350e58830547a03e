package v1alpha1

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// LeavingCondition begins the reason of [Leaving] that is a condition which an administrator has set.
const LeavingCondition = "condition "

// lifecycle are the conditions of Kubernetes 1.37 (KEP-5683) with which pods and traffic leave a Node. MaintenancePlanned is
// about later.
func lifecycle() []corev1.NodeConditionType {
	return []corev1.NodeConditionType{
		corev1.NodeMaintenanceInProgress, corev1.NodeDrainInProgress, corev1.NodeDrained, corev1.NodeGracefulNodeShutdownInProgress,
	}
}

// Leaving says why a Node gives away the addresses that it announces; empty: it does not. A cordon is no reason.
func Leaving(node *corev1.Node) string {
	switch {
	case node.DeletionTimestamp != nil:
		return "the Node is being deleted"
	case node.Labels[DrainLabel] == "true":
		return "label " + DrainLabel
	}
	for _, taint := range node.Spec.Taints {
		switch taint.Key {
		case AutoscalerTaint, corev1.TaintNodeOutOfService, ShutdownTaint:
			return "taint " + taint.Key
		}
	}
	for _, condition := range node.Status.Conditions {
		switch {
		case condition.Type == corev1.NodeNetworkUnavailable && condition.Status == corev1.ConditionTrue &&
			condition.Reason != "NoRouteCreated": // the route controller's, about routes to pods: the machine may be reached
			return "NetworkUnavailable"
		case condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionFalse &&
			strings.Contains(condition.Message, "node is shutting down"): // the kubelet's, in both of its reasons
			return "the machine is shutting down"
		case condition.Status == corev1.ConditionTrue && slices.Contains(lifecycle(), condition.Type):
			return LeavingCondition + string(condition.Type)
		}
	}
	return ""
}
