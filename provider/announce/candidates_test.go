package announce

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// TestView_SetCandidates_NoAgent has a Node whose report was deleted, as it sees itself and as another sees it.
func TestView_SetCandidates_NoAgent(t *testing.T) {
	agent := &v1alpha1.NodeAgent{Status: v1alpha1.NodeAgentStatus{
		Interfaces: []v1alpha1.AgentInterface{{Name: "eth0", MAC: "02:00:00:00:00:01", Addresses: []string{"192.0.2.11/24"}}},
	}}
	for _, tt := range []struct {
		name  string
		self  string
		level v1alpha1.Level
		want  []string
	}{
		{name: "BGP, on the Node", self: "w1", level: v1alpha1.LevelBGP, want: []string{"w1", "w2"}},
		{name: "BGP, on another", self: "w2", level: v1alpha1.LevelBGP, want: []string{"w2"}},
		{name: "L2, on the Node", self: "w1", level: v1alpha1.LevelL2, want: []string{"w2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			view := &View{Node: tt.self, Nodes: map[string]*corev1.Node{}, Agents: map[string]*v1alpha1.NodeAgent{"w2": agent}}
			for _, name := range []string{"w1", "w2"} {
				view.Nodes[name] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
			}
			view.Claims = []Claim{{Address: netip.MustParseAddr("192.0.2.50"), Level: tt.level}}
			view.SetCandidates(Endpoints{})
			if diff := cmp.Diff(tt.want, view.Claims[0].Candidates); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// twoClaims are 192.0.2.50 of Service shop/web from pool lan, and another, on two Nodes.
func twoClaims() *View {
	web := []types.NamespacedName{{Namespace: "shop", Name: "web"}}
	view := &View{
		Nodes: map[string]*corev1.Node{}, Agents: map[string]*v1alpha1.NodeAgent{},
		Pools: map[string]*v1alpha1.AddressPool{"lan": {}},
		Claims: []Claim{
			{Address: netip.MustParseAddr("192.0.2.50"), Level: v1alpha1.LevelL2, Pool: "lan", Services: web},
			{Address: netip.MustParseAddr("192.0.2.51"), Level: v1alpha1.LevelL2, Pool: "other"},
		},
	}
	for i, name := range []string{"w1", "w2"} {
		view.Nodes[name] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		view.Agents[name] = &v1alpha1.NodeAgent{Status: v1alpha1.NodeAgentStatus{Interfaces: []v1alpha1.AgentInterface{{
			Name: "eth0", MAC: "02:00:00:00:00:01", Addresses: []string{fmt.Sprintf("192.0.2.%d/24", 11+i)},
		}}}}
	}
	return view
}

// Two Services share an address, whose endpoints come and end: who may announce it, and where an endpoint ends.
func TestView_SetCandidates_Ending(t *testing.T) {
	yes, no := true, false
	states := map[string]discoveryv1.EndpointConditions{
		"ready":      {Ready: &yes},
		"unsaid":     {},
		"not ready":  {Ready: &no, Serving: &no},
		"ending":     {Ready: &no, Serving: &yes, Terminating: &yes},
		"has ended":  {Ready: &no, Serving: &no, Terminating: &yes},
		"not ending": {Ready: &no, Serving: &yes, Terminating: &no},
	}
	type nodes = map[string][]string
	for _, tt := range []struct {
		name         string
		web, api     nodes
		want, ending []string
	}{
		{
			name: "one ends", web: nodes{"w1": {"ending"}, "w2": {"ready"}},
			want: []string{"w1", "w2"}, ending: []string{"w1"},
		},
		{
			name: "one ends beside another on its Node", web: nodes{"w1": {"unsaid", "ending"}, "w2": {"ready"}},
			want: []string{"w1", "w2"},
		},
		{
			name: "one of two Services has one that ends",
			web:  nodes{"w1": {"ready"}, "w2": {"ready"}}, api: nodes{"w1": {"ready"}, "w2": {"ending", "has ended"}},
			want: []string{"w1", "w2"}, ending: []string{"w2"},
		},
		{
			name: "one of two Services has none that serves",
			web:  nodes{"w1": {"ending"}, "w2": {"ready"}}, api: nodes{"w1": {"ready"}, "w2": {"not ready", "not ending"}},
			want: []string{"w1"}, ending: []string{"w1"},
		},
		{name: "has ended", web: nodes{"w1": {"has ended"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			view, e := twoClaims(), Endpoints{Services: map[string]*corev1.Service{}}
			c := &view.Claims[0]
			c.Services, c.Probed = nil, true
			for name, nodes := range map[string]nodes{"web": tt.web, "api": tt.api} {
				for node, list := range nodes {
					e.Services["shop/"+name] = localService()
					for _, state := range list {
						e.Slices = append(e.Slices, sliceOf(name, node, states[state]))
					}
				}
				c.Services = append(c.Services, types.NamespacedName{Namespace: "shop", Name: name})
			}
			view.SetCandidates(e)
			if diff := cmp.Diff(tt.want, c.Candidates); diff != "" {
				t.Errorf("candidates: %s", diff)
			}
			if diff := cmp.Diff(tt.ending, c.Ending); diff != "" {
				t.Errorf("ending: %s", diff)
			}
		})
	}
}

func localService() *corev1.Service {
	const local = corev1.ServiceExternalTrafficPolicyLocal
	return &corev1.Service{Spec: corev1.ServiceSpec{ExternalTrafficPolicy: local}}
}

// sliceOf is an EndpointSlice of Service shop/NAME with one endpoint.
func sliceOf(name, node string, c discoveryv1.EndpointConditions) *discoveryv1.EndpointSlice {
	labels := map[string]string{discoveryv1.LabelServiceName: name}
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Labels: labels},
		Endpoints:  []discoveryv1.Endpoint{{NodeName: &node, Conditions: c}},
	}
}

// TestView_SetCandidates_Preferred: of the Nodes that may announce an address, those that its pool prefers.
func TestView_SetCandidates_Preferred(t *testing.T) {
	view := twoClaims()
	for name, node := range view.Nodes {
		node.Labels = map[string]string{"name": name}
	}
	prefer := func(name string) {
		view.Pools["lan"].Spec.PreferredNodes = v1alpha1.PoolPreferredNodes{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"name": name}}, ReturnAfter: metav1.Duration{Duration: time.Minute},
		}
		view.SetCandidates(Endpoints{})
	}
	for _, tt := range []struct {
		name string
		want []string
	}{{"w2", []string{"w2"}}, {"w9", nil}} {
		prefer(tt.name)
		c := view.Claims[0]
		if !slices.Equal(c.Preferred, tt.want) || len(c.Candidates) != 2 || c.ReturnAfter != time.Minute {
			t.Errorf("%s is preferred: %v of %v after %s", tt.name, c.Preferred, c.Candidates, c.ReturnAfter)
		}
	}
	view.Nodes["w2"].Labels[v1alpha1.DrainLabel] = "true"
	prefer("w2")
	if c := view.Claims[0]; len(c.Preferred) > 0 {
		t.Errorf("a Node that hands over its addresses is preferred: %v", c.Preferred)
	}
}

// What an operator or somebody else does to a Service, a pool or a Node: who may announce then. Another claim, of which
// nothing was changed, has the same candidates throughout.
func TestView_SetCandidates(t *testing.T) {
	const local = corev1.ServiceExternalTrafficPolicyLocal
	slice := func(node string, ready bool) *discoveryv1.EndpointSlice {
		return sliceOf("web", node, discoveryv1.EndpointConditions{Ready: &ready})
	}
	for _, tt := range []struct {
		name   string
		change func(v *View, s *corev1.Service, e *Endpoints)
		want   []string
	}{
		{"nothing", func(*View, *corev1.Service, *Endpoints) {}, []string{"w1", "w2"}},
		{
			"its EndpointSlices are deleted",
			func(_ *View, _ *corev1.Service, e *Endpoints) { e.Slices = nil },
			[]string{"w1", "w2"},
		},
		{
			"externalTrafficPolicy becomes Local",
			func(_ *View, s *corev1.Service, _ *Endpoints) { s.Spec.ExternalTrafficPolicy = local },
			[]string{"w1"},
		},
		{"Local, without EndpointSlices", func(v *View, s *corev1.Service, e *Endpoints) {
			s.Spec.ExternalTrafficPolicy, e.Slices, v.Claims[0].Probed = local, nil, true
		}, nil},
		{"Local, without EndpointSlices, and the network was not probed yet", func(_ *View, s *corev1.Service, e *Endpoints) {
			s.Spec.ExternalTrafficPolicy, e.Slices = local, nil
		}, []string{"w1", "w2"}},
		{"Local by BGP, without EndpointSlices", func(v *View, s *corev1.Service, e *Endpoints) {
			s.Spec.ExternalTrafficPolicy, e.Slices, v.Claims[0].Level = local, nil, v1alpha1.LevelBGP
		}, nil},
		{"Local, and the endpoint moves", func(_ *View, s *corev1.Service, e *Endpoints) {
			s.Spec.ExternalTrafficPolicy = local
			e.Slices = []*discoveryv1.EndpointSlice{slice("w1", false), slice("w2", true)}
		}, []string{"w2"}},
		{"a sharer of another namespace becomes Local", func(v *View, _ *corev1.Service, e *Endpoints) {
			v.Claims[0].Services = append(v.Claims[0].Services, types.NamespacedName{Namespace: "other", Name: "web"})
			e.Services["other/web"], v.Claims[0].Probed = localService(), true
		}, []string{"w1", "w2"}},
		{"a sharer of its namespace becomes Local", func(v *View, _ *corev1.Service, e *Endpoints) {
			v.Claims[0].Services = append(v.Claims[0].Services, types.NamespacedName{Namespace: "shop", Name: "api"})
			e.Services["shop/api"], v.Claims[0].Probed = localService(), true
		}, nil},
		{"an interface that no Node has", func(v *View, _ *corev1.Service, _ *Endpoints) {
			v.Pools["lan"].Spec.Interfaces = []string{"eth7"}
		}, nil},
		{
			"a cordon",
			func(v *View, _ *corev1.Service, _ *Endpoints) { v.Nodes["w1"].Spec.Unschedulable = true },
			[]string{"w1", "w2"},
		},
		{"our label", func(v *View, _ *corev1.Service, _ *Endpoints) {
			v.Nodes["w1"].Labels = map[string]string{v1alpha1.DrainLabel: "true"}
		}, []string{"w2"}},
		{"a Node that is shutting down", func(v *View, _ *corev1.Service, _ *Endpoints) {
			v.Nodes["w1"].Status.Conditions = []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionFalse, Message: "node is shutting down",
			}}
		}, []string{"w2"}},
		{"a Node that the autoscaler removes", func(v *View, _ *corev1.Service, _ *Endpoints) {
			v.Nodes["w1"].Spec.Taints = []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler"}}
		}, []string{"w2"}},
		{"a Node that is not ready", func(v *View, _ *corev1.Service, _ *Endpoints) {
			v.Nodes["w1"].Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
		}, []string{"w1", "w2"}},
		{"a Node that is not selected", func(v *View, _ *corev1.Service, _ *Endpoints) {
			v.Pools["lan"].Spec.Nodes = &metav1.LabelSelector{MatchLabels: map[string]string{"rack": "a"}}
		}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			view, s := twoClaims(), &corev1.Service{}
			slices := []*discoveryv1.EndpointSlice{slice("w1", true)}
			e := Endpoints{Services: map[string]*corev1.Service{"shop/web": s}, Slices: slices}
			tt.change(view, s, &e)
			view.SetCandidates(e)
			if diff := cmp.Diff(tt.want, view.Claims[0].Candidates); diff != "" {
				t.Error(diff)
			}
			if len(view.Claims[1].Candidates) == 0 {
				t.Error("the other claim has no candidate any more")
			}
		})
	}
}

// A Node that cannot send packets of pods with the address of their Service leaves it to others, if packets are to be sent so.
func TestView_SetCandidates_Egress(t *testing.T) {
	labelled := map[string]*corev1.Service{"shop/web": {ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.EgressLabel: "true"}}}}
	for _, tt := range []struct {
		name     string
		can      []string
		services map[string]*corev1.Service
		want     []string
	}{
		{"two can", []string{"w2", "w3"}, labelled, []string{"w2", "w3"}},
		{"all can", []string{"w1", "w2", "w3"}, labelled, []string{"w1", "w2", "w3"}},
		{"one can, which may fail", []string{"w2"}, labelled, []string{"w1", "w2", "w3"}},
		{"two can, of which one is no candidate", []string{"w2", "w4"}, labelled, []string{"w1", "w2", "w3"}},
		{"none can", nil, labelled, []string{"w1", "w2", "w3"}},
		{"not asked for", []string{"w2", "w3"}, map[string]*corev1.Service{"shop/web": {}}, []string{"w1", "w2", "w3"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			view := twoClaims()
			for _, name := range []string{"w3", "w4"} { // w4 is not in the network
				view.Nodes[name] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
				view.Agents[name] = &v1alpha1.NodeAgent{}
			}
			view.Agents["w3"].Status.Interfaces = view.Agents["w1"].Status.Interfaces
			for _, name := range tt.can {
				view.Agents[name].Status.Egress = true
			}
			view.SetCandidates(Endpoints{Services: tt.services})
			if got := view.Claims[0].Candidates; !slices.Equal(got, tt.want) {
				t.Errorf("candidates of the Service's address are %v, want %v", got, tt.want)
			}
			if got := view.Claims[1].Candidates; !slices.Equal(got, []string{"w1", "w2", "w3"}) {
				t.Errorf("candidates of another address are %v, want all", got)
			}
		})
	}
}

// With a thousand Nodes and thousands of Services with externalTrafficPolicy Local, a look costs what these have of endpoints: each agent
// makes it again when a pod of theirs starts, and keeps the result.
func TestView_SetCandidates_LocalOfManyNodes(t *testing.T) {
	const count = 1000
	v := &View{Nodes: map[string]*corev1.Node{}, Agents: map[string]*v1alpha1.NodeAgent{}}
	for n := range count {
		name := fmt.Sprint("w", n)
		v.Nodes[name] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		v.Agents[name] = &v1alpha1.NodeAgent{}
	}
	e := Endpoints{Services: map[string]*corev1.Service{}}
	for n := range 100 {
		name := types.NamespacedName{Namespace: "default", Name: fmt.Sprint("s", n)}
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
		s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		e.Services[name.String()] = s
		v.Claims = append(v.Claims, Claim{
			Address: netip.AddrFrom4([4]byte{192, 0, 2, byte(n)}), Level: v1alpha1.LevelBGP, Services: []types.NamespacedName{name}, Probed: true,
		})
		node := fmt.Sprint("w", n)
		e.Slices = append(e.Slices, &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Labels: map[string]string{discoveryv1.LabelServiceName: name.Name}},
			Endpoints:  []discoveryv1.Endpoint{{NodeName: &node}},
		})
	}
	v.SetCandidates(e)
	for i, c := range v.Claims {
		if want := fmt.Sprint("w", i); len(c.Candidates) != 1 || c.Candidates[0] != want || cap(c.Candidates) > 8 {
			t.Fatalf("%s has candidates %v, which keep %d names, want %s alone", c.Address, c.Candidates, cap(c.Candidates), want)
		}
	}
	if allocations := testing.AllocsPerRun(3, func() { v.SetCandidates(e) }); allocations > 10*count {
		t.Errorf("%.0f allocations for 100 Services, as if each had all Nodes", allocations)
	}
}
