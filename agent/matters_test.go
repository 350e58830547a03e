package agent

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
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
	node, agent := &corev1.Node{}, withSession("Established")
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
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
		{"an interface", agents, agent, withAgent(func(s *status) { s.Interfaces = make([]v1alpha1.AgentInterface, 1) }), true},
		{"a session ends", agents, agent, withSession("Idle"), true},
		{"a session comes", agents, withSession("Idle"), agent, true},
		{"a router rejects", agents, withSession("Idle"), withSession("Active"), false},
		{"policy Cluster", services, api, api, false},
		{"policy Local ends", services, web, api, true},
		{"policy Local is new", services, nil, web, true},
		{"policy Local, with an annotation", services, web, with(web, func(s *corev1.Service) { s.ResourceVersion = "2" }), false},
		{"policy Local, deleted and made again", services, web, with(web, func(s *corev1.Service) { s.UID = "2" }), true},
		{"policy Local, a port for health checks", services, web, with(web, func(s *corev1.Service) { s.Spec.HealthCheckNodePort = 1 }), true},
		{"endpoints of policy Cluster", slices, sliceOfService("api"), sliceOfService("api", "w1"), false},
		{"endpoints of policy Local", slices, sliceOfService("web"), sliceOfService("web", "w1"), true},
		{"endpoints of policy Local move", slices, sliceOfService("web", "w1"), sliceOfService("web", "w2"), true},
		{"endpoints of policy Local, with an annotation", slices, sliceOfService("web", "w1"), sliceOfService("web", "w1"), false},
		{"endpoints of policy Local are new", slices, nil, sliceOfService("web"), true},
		{"endpoints become another Service's", slices, sliceOfService("web", "w1"), sliceOfService("api", "w1"), true},
		{"endpoints of a Service that is not known", slices, sliceOfService("new"), sliceOfService("new", "w1"), false},
	} {
		if got := tt.filter(tt.before, tt.after); got != tt.want {
			t.Errorf("%s: got %t, want %t", tt.name, got, tt.want)
		}
	}
}

// What the manager writes into a status is for people: of AddressPools and BGPPeers agents read the spec.
func TestFilters_Specs(t *testing.T) {
	c, err := newCaches(&rest.Config{})
	if err != nil {
		t.Fatal(err)
	}
	meta := metav1.ObjectMeta{UID: "1", Generation: 1}
	pool, peer := &v1alpha1.AddressPool{ObjectMeta: meta}, &v1alpha1.BGPPeer{ObjectMeta: meta}
	type (
		aPool = v1alpha1.AddressPool
		aPeer = v1alpha1.BGPPeer
	)
	pools, peers := c.filters()[c.pools], c.filters()[c.peers]
	if pools == nil || peers == nil {
		t.Fatal("everything of them matters")
	}
	for _, tt := range []struct {
		name          string
		filter        func(before, after any) bool
		before, after any
		want          bool
	}{
		{"a new pool", pools, nil, pool, true},
		{"its status", pools, pool, with(pool, func(p *aPool) { p.Status.Assigned = 1 }), false},
		{"its spec", pools, pool, with(pool, func(p *aPool) { p.Generation = 2 }), true},
		{"it was deleted and made again", pools, pool, with(pool, func(p *aPool) { p.UID = "2" }), true},
		{"a new router", peers, nil, peer, true},
		{"its status", peers, peer, with(peer, func(p *aPeer) { p.Status.Established = 1 }), false},
		{"its spec", peers, peer, with(peer, func(p *aPeer) { p.Generation = 2 }), true},
	} {
		if got := tt.filter(tt.before, tt.after); got != tt.want {
			t.Errorf("%s: got %t, want %t", tt.name, got, tt.want)
		}
	}
}

// with is a copy that was changed, whose pointers are those of the object.
func with[T any](object *T, change func(*T)) *T {
	changed := *object
	change(&changed)
	return &changed
}

func withSession(state string) *v1alpha1.NodeAgent {
	sessions := []v1alpha1.BGPSession{{Peer: "tor", State: state}}
	return &v1alpha1.NodeAgent{Status: v1alpha1.NodeAgentStatus{Sessions: sessions}}
}

func sliceOfService(name string, nodes ...string) *discoveryv1.EndpointSlice {
	labels := map[string]string{discoveryv1.LabelServiceName: name}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Labels: labels}}
	for _, node := range nodes {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{NodeName: new(node)})
	}
	return slice
}
