package network

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A Node without a network is ruled out; one to whose pods a route is missing goes on announcing, as its agent does.
func TestWhy_NetworkUnavailable(t *testing.T) {
	for reason, want := range map[string]string{"CalicoIsDown": "NetworkUnavailable", "NoRouteCreated": ""} {
		s := shop()
		s.Nodes[1].Status.Conditions = []corev1.NodeCondition{
			{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue, Reason: reason},
		}
		if v := s.Why("shop/web").Nodes[1]; v.Against() != want || v.Eligible != (want == "") {
			t.Errorf("reason %s: got %q, eligible %t, want %q", reason, v.Against(), v.Eligible, want)
		}
	}
}
