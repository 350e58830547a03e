package v1alpha1_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// A Node without a network gives its addresses away; one to whose pods a route is missing does not.
func TestLeaving_NetworkUnavailable(t *testing.T) {
	for reason, want := range map[string]string{"CalicoIsDown": "NetworkUnavailable", "NoRouteCreated": ""} {
		node := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue, Reason: reason},
		}}}
		if got := v1alpha1.Leaving(node); got != want {
			t.Errorf("reason %s: got %q, want %q", reason, got, want)
		}
	}
}

// What is planned moves nothing yet.
func TestLeaving_Lifecycle(t *testing.T) {
	for condition, want := range map[corev1.NodeConditionType]string{
		corev1.NodeMaintenancePlanned:             "",
		corev1.NodeMaintenanceInProgress:          "condition MaintenanceInProgress",
		corev1.NodeDrainInProgress:                "condition DrainInProgress",
		corev1.NodeDrained:                        "condition Drained",
		corev1.NodeGracefulNodeShutdownInProgress: "condition GracefulNodeShutdownInProgress",
		corev1.NodeMemoryPressure:                 "",
	} {
		for status, want := range map[corev1.ConditionStatus]string{
			corev1.ConditionTrue: want, corev1.ConditionFalse: "", corev1.ConditionUnknown: "",
		} {
			node := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: condition, Status: status}}}}
			if got := v1alpha1.Leaving(node); got != want {
				t.Errorf("%s is %s: got %q, want %q", condition, status, got, want)
			}
		}
	}
}
