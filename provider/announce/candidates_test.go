package announce

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A Node without a network gives its addresses away; one to whose pods a route is missing does not.
func TestLeaving_NetworkUnavailable(t *testing.T) {
	for reason, want := range map[string]bool{"CalicoIsDown": true, "NoRouteCreated": false} {
		node := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue, Reason: reason},
		}}}
		if got := leaving(node); got != want {
			t.Errorf("reason %s: got %v, want %v", reason, got, want)
		}
	}
}
