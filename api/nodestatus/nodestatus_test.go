package nodestatus

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestInternalIPs(t *testing.T) {
	node := &corev1.Node{Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
		{Type: corev1.NodeHostName, Address: "192.0.2.9"},
		{Type: corev1.NodeExternalIP, Address: "203.0.113.1"},
		{Type: corev1.NodeInternalIP, Address: "example.com"},
		{Type: corev1.NodeInternalIP, Address: ""},
		{Type: corev1.NodeInternalIP, Address: "2001:db8::1%eth0 --root-dir=/x"},
		{Type: corev1.NodeInternalIP, Address: "::ffff:192.0.2.1"},
		{Type: corev1.NodeInternalIP, Address: "192.0.2.2"},
		{Type: corev1.NodeInternalIP, Address: "2001:DB8::2"},
	}}}
	all := InternalIPs(node)
	if got, want := fmt.Sprint(all), "[192.0.2.1 192.0.2.2 2001:db8::2]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(FirstOfEachFamily(all)), "[192.0.2.1 2001:db8::2]"; got != want {
		t.Errorf("the first of each family: got %s, want %s", got, want)
	}
}

func TestIsReady(t *testing.T) {
	for _, tt := range []struct {
		conditions []corev1.NodeCondition
		want       bool
	}{
		{},
		{conditions: []corev1.NodeCondition{{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue}}},
		{conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}},
		{conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}, want: true},
	} {
		if got := IsReady(&corev1.Node{Status: corev1.NodeStatus{Conditions: tt.conditions}}); got != tt.want {
			t.Errorf("%v: got %v", tt.conditions, got)
		}
	}
}
