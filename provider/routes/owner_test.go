package routes

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// withCondition is a Node whose condition NetworkUnavailable was written that long ago.
func withCondition(n *corev1.Node, reason string, age time.Duration) *corev1.Node {
	n = n.DeepCopy()
	n.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse, Reason: reason,
		LastHeartbeatTime: metav1.NewTime(time.Now().Add(-age)),
	}}
	return n
}

// A network add-on owns the routes if it is there. A kubelet that says so is one Node's, and what a removed one left
// behind is nobody's.
func TestRoutes_Owner(t *testing.T) {
	const old = time.Hour
	ahead := withCondition(nodeA, "CalicoIsUp", -1000*time.Hour)
	foreign := func(name string) spoken {
		agent := said(name, 0, name, "")
		agent.Problems = []v1alpha1.RouteProblem{{Destination: "10.244.9.0/24", Node: "x", Reason: Foreign}}
		return agent
	}
	for _, tt := range []struct {
		name    string
		nodes   []*corev1.Node
		agents  []spoken
		wantErr string
	}{
		{name: "one Node says so", nodes: []*corev1.Node{withCondition(nodeA, "FlannelIsUp", 0)}},
		{name: "most did, long ago", nodes: []*corev1.Node{
			withCondition(nodeA, "FlannelIsUp", old), withCondition(nodeB, "FlannelIsUp", old),
		}},
		{
			name: "most do", nodes: []*corev1.Node{withCondition(nodeA, "FlannelIsUp", 0), withCondition(nodeB, "FlannelIsUp", 0)},
			wantErr: "a network add-on owns the routes of 2 of 3 Nodes, first: Node/a has condition NetworkUnavailable with reason FlannelIsUp",
		},
		{name: "one of them with a clock that never ends", nodes: []*corev1.Node{ahead, withCondition(nodeB, "FlannelIsUp", 0)}},
		{
			name:    "most did, long ago, and their kernels have its routes",
			nodes:   []*corev1.Node{withCondition(nodeA, "FlannelIsUp", old), withCondition(nodeB, "FlannelIsUp", old)},
			agents:  []spoken{foreign("a"), foreign("b")},
			wantErr: "a network add-on owns the routes of 2 of 3 Nodes",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := served(t, "", tt.nodes...)
			r.hear(said("a", 0, "abc", ""), said("b", 0, "abc", ""), said("c", 0, "abc", ""))
			r.hear(tt.agents...)
			_, err := r.ListRoutes(t.Context(), testCluster)
			if tt.wantErr == "" && err != nil || tt.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tt.wantErr)) {
				t.Errorf("got error %v, want %q", err, tt.wantErr)
			}
		})
	}
}

func TestOwner(t *testing.T) {
	for _, tt := range []struct {
		name string
		want bool
	}{
		{"kube-flannel-ds", true},
		{"kube-flannel-ds-amd64", true},
		{"calico-node", true},
		{"cilium", true},
		{"kube-router", true},
		{"kube-proxy", false},
		{v1alpha1.AgentName, false},
	} {
		set := appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: tt.name}}
		if got := daemonSetOwner([]appsv1.DaemonSet{set}); (got != "") != tt.want {
			t.Errorf("DaemonSet %s: got %q", tt.name, got)
		}
	}
	for _, tt := range []struct {
		name        string
		hostNetwork bool
		pods        int32
		want        bool
	}{
		{"flannel in a namespace of its own", true, 3, true},
		{"a tenant's", false, 3, false},
		{"a tenant's that may not be in the machines' network", true, 0, false},
	} {
		set := appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "somewhere", Name: "kube-flannel-ds"}}
		set.Spec.Template.Spec.HostNetwork, set.Status.CurrentNumberScheduled = tt.hostNetwork, tt.pods
		if got := daemonSetOwner([]appsv1.DaemonSet{set}); (got != "") != tt.want {
			t.Errorf("%s: got %q", tt.name, got)
		}
	}
	for reason, want := range map[string]bool{
		"FlannelIsUp": true, "CalicoIsDown": true, "CiliumIsUp": true, "RouteCreated": false, "NoRouteCreated": false,
	} {
		n := node("a", nil)
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeNetworkUnavailable, Reason: reason}}
		if got := describeCondition(n); (got != "") != want {
			t.Errorf("reason %s: got %q", reason, got)
		}
	}
}
