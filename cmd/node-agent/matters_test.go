package main

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// What agents and kubelets write to show that they live makes no new view. What decides about an address does.
func TestFilters(t *testing.T) {
	c, err := newCaches(&rest.Config{})
	if err != nil {
		t.Fatal(err)
	}
	type status = v1alpha1.NodeAgentStatus
	web := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	web.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	api := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "api"}}
	for _, s := range []*corev1.Service{web, api} {
		if err := c.services.GetStore().Add(s); err != nil {
			t.Fatal(err)
		}
	}
	node, agent := &corev1.Node{}, &v1alpha1.NodeAgent{}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	agent.Status.Sessions = []v1alpha1.BGPSession{{Peer: "tor", State: "Established"}}
	withNode := func(change func(*corev1.Node)) *corev1.Node { n := node.DeepCopy(); change(n); return n }
	withAgent := func(change func(*status)) *v1alpha1.NodeAgent {
		a := agent.DeepCopy()
		change(&a.Status)
		return a
	}
	f := c.filters()
	nodes, agents, services, slices := f[c.nodes], f[c.agents], f[c.services], f[c.slices]
	for _, tt := range []struct {
		name          string
		filter        func(before, after any) bool
		before, after any
		want          bool
	}{
		{"a new Node", nodes, nil, node, true},
		{"a kubelet lives", nodes, node, withNode(func(n *corev1.Node) {
			n.ResourceVersion, n.Status.Conditions[0].LastHeartbeatTime = "2", metav1.Now()
			n.Status.Images = []corev1.ContainerImage{{SizeBytes: 1}}
		}), false},
		{"it is not ready", nodes, node, withNode(func(n *corev1.Node) { n.Status.Conditions[0].Status = "False" }), true},
		{"a label", nodes, node, withNode(func(n *corev1.Node) { n.Labels = map[string]string{"a": "b"} }), true},
		{"a taint", nodes, node, withNode(func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "x"}} }), true},
		{"an address", nodes, node, withNode(func(n *corev1.Node) { n.Status.Addresses = []corev1.NodeAddress{{}} }), true},
		{"a deletion", nodes, node, withNode(func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{} }), true},
		{"an agent lives, and announces", agents, agent, withAgent(func(s *status) {
			s.RenewTime, s.Announced, s.Sessions[0].Advertised = metav1.NowMicro(), 1, 1
			s.Announcements = []v1alpha1.Announcement{{Address: "192.0.2.50"}}
		}), false},
		{"an agent drains", agents, agent, withAgent(func(s *status) { s.Draining = true }), true},
		{"an agent can carry", agents, agent, withAgent(func(s *status) { s.Proxy = true }), true},
		{"an interface", agents, agent, withAgent(func(s *status) { s.Interfaces = make([]v1alpha1.AgentInterface, 1) }), true},
		{"a session ends", agents, agent, withAgent(func(s *status) { s.Sessions[0].State = "Idle" }), true},
		{"policy Cluster", services, api, api, false},
		{"policy Local ends", services, web, api, true},
		{"endpoints of policy Cluster", slices, sliceOfService("api"), sliceOfService("api"), false},
		{"endpoints of policy Local", slices, sliceOfService("web"), sliceOfService("web"), true},
		{"endpoints of a Service that is not known", slices, sliceOfService("new"), sliceOfService("new"), false},
	} {
		if got := tt.filter(tt.before, tt.after); got != tt.want {
			t.Errorf("%s: got %t, want %t", tt.name, got, tt.want)
		}
	}
}

// A Service of level Proxy matters, and so do its endpoints, whatever its policy.
func TestFilters_Proxy(t *testing.T) {
	c, err := newCaches(&rest.Config{})
	if err != nil {
		t.Fatal(err)
	}
	web := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	if err := c.services.GetStore().Add(web); err != nil {
		t.Fatal(err)
	}
	f := c.filters()
	check := func(when string, want bool) {
		t.Helper()
		slice := sliceOfService("web")
		if got := f[c.services](web, web); got != want {
			t.Errorf("%s, the Service: got %t, want %t", when, got, want)
		}
		if got := f[c.slices](slice, slice); got != want {
			t.Errorf("%s, its endpoints: got %t, want %t", when, got, want)
		}
	}
	check("without a claim", false)
	if err := c.claims.GetStore().Add(proxiedClaim("web")); err != nil {
		t.Fatal(err)
	}
	check("with one of level Proxy", true)
}

func proxiedClaim(service string) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{
			Name: "192.0.2.50", Labels: map[string]string{networkingv1.LabelManagedBy: v1alpha1.ClaimManager},
			Annotations: map[string]string{v1alpha1.ClaimLevelAnnotation: string(v1alpha1.LevelProxy)},
		},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{
			Resource: "services", Namespace: "shop", Name: service,
		}},
	}
}

func sliceOfService(name string) *discoveryv1.EndpointSlice {
	labels := map[string]string{discoveryv1.LabelServiceName: name}
	return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Labels: labels}}
}
