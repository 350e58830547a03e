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
