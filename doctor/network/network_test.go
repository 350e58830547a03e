package network

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

var now = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// shop is a cluster of three Nodes: web is announced by w1, db is at level NodeIP, mail waits.
func shop() *Snapshot {
	s := &Snapshot{Now: now, Defined: true}
	s.Services = []corev1.Service{service("web"), service("db"), service("mail")}
	s.Services[1].Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "10.0.0.1"}}
	s.Services[2].Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.LoadBalancerReady, Status: metav1.ConditionFalse, Reason: "PoolExhausted", Message: "lan is full",
	}}
	s.Claims = []networkingv1.IPAddress{claim("192.0.2.50", "shop", "web")}
	s.Pools = []v1alpha1.AddressPool{{ObjectMeta: metav1.ObjectMeta{Name: "lan"}}}
	s.Nodes = []corev1.Node{node("cp1"), node("w1"), node("w2")}
	s.Nodes[0].Labels = map[string]string{v1alpha1.ExcludeLabel: ""}
	s.Agents = []v1alpha1.NodeAgent{agent("cp1"), agent("w1"), agent("w2")}
	s.Agents[1].Status.Announcements = []v1alpha1.Announcement{{Address: "192.0.2.50", Level: v1alpha1.LevelL2, Interface: "eth0"}}
	return s
}

func service(name string) corev1.Service {
	return corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, CreationTimestamp: metav1.NewTime(now)},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
	}
}

func claim(address, namespace, name string) networkingv1.IPAddress {
	return networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: address, Annotations: map[string]string{
			v1alpha1.ClaimPoolAnnotation: "lan", v1alpha1.ClaimLevelAnnotation: string(v1alpha1.LevelL2),
		}},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: namespace, Name: name}},
	}
}

func node(name string) corev1.Node {
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: "linux"}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

func agent(name string) v1alpha1.NodeAgent {
	return v1alpha1.NodeAgent{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: v1alpha1.NodeAgentStatus{
			RenewTime:  metav1.NewMicroTime(now.Add(-4 * time.Second)),
			Interfaces: []v1alpha1.AgentInterface{{Name: "eth0", Addresses: []string{"192.0.2.11/24"}}},
		},
	}
}

func endpoint(node, service string, ready bool) discoveryv1.EndpointSlice {
	return discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		Endpoints:  []discoveryv1.Endpoint{{NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
	}
}

func TestBalancers(t *testing.T) {
	got := shop().Balancers()
	want := []Balancer{
		{Service: "shop/db", Addresses: []string{"10.0.0.1"}, Level: v1alpha1.LevelNodeIP, Ready: true, Since: now},
		{Service: "shop/mail", Reason: "PoolExhausted", Message: "lan is full", Since: now},
		{
			Service: "shop/web", Addresses: []string{"192.0.2.50"}, Pool: "lan", Level: v1alpha1.LevelL2,
			Announcers: []string{"w1"}, Reason: "Publishing", Since: now,
			Message: "an agent announces the address; the cloud-controller-manager is to publish it",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("load balancers (-want +got):\n%s", diff)
	}
}

// Each row changes one thing, and says what is against w1 then, and against w2.
func TestWhy_RulesOfANode(t *testing.T) {
	local := func(s *Snapshot) { s.Services[0].Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal }
	for _, tt := range []struct {
		name   string
		change func(*Snapshot)
		w1, w2 string
	}{
		{name: "nothing", change: func(*Snapshot) {}},
		{
			name:   "no agent",
			change: func(s *Snapshot) { s.Agents = s.Agents[:2] },
			w2:     "no agent has ever reported from here",
		},
		{
			name:   "a silent agent",
			change: func(s *Snapshot) { s.Agents[2].Status.RenewTime = metav1.NewMicroTime(now.Add(-2 * time.Minute)) },
			w2:     "its agent has not reported for 2m0s",
		},
		{
			name:   "an agent that drains",
			change: func(s *Snapshot) { s.Agents[2].Status.Draining = true },
			w2:     "its agent is handing over its addresses",
		},
		{
			name:   "a label of ours",
			change: func(s *Snapshot) { s.Nodes[2].Labels = map[string]string{v1alpha1.DrainLabel: "true"} },
			w2:     "label ccmadm.dev/drain",
		},
		{
			name:   "a machine that is out of service",
			change: func(s *Snapshot) { s.Nodes[1].Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService}} },
			w1:     "taint node.kubernetes.io/out-of-service",
		},
		{
			name:   "a cordon is none",
			change: func(s *Snapshot) { s.Nodes[1].Spec.Unschedulable = true },
		},
		{
			name: "the pool's nodes",
			change: func(s *Snapshot) {
				s.Pools[0].Spec.Nodes = &metav1.LabelSelector{MatchLabels: map[string]string{"edge": "yes"}}
				s.Nodes[1].Labels = map[string]string{"edge": "yes"}
			},
			w2: "not among the nodes of AddressPool lan",
		},
		{
			name:   "another subnet",
			change: func(s *Snapshot) { s.Agents[2].Status.Interfaces[0].Addresses = []string{"198.51.100.1/24"} },
			w2:     "none of its interfaces has a subnet that holds 192.0.2.50",
		},
		{
			name:   "the pool's interfaces",
			change: func(s *Snapshot) { s.Pools[0].Spec.Interfaces = []string{"vlan7"} },
			w1:     "it has none of the interfaces vlan7 with carrier", w2: "it has none of the interfaces vlan7 with carrier",
		},
		{
			name: "BGP without a session",
			change: func(s *Snapshot) {
				s.Claims[0].Annotations[v1alpha1.ClaimLevelAnnotation] = string(v1alpha1.LevelBGP)
				s.Agents[1].Status.Sessions = []v1alpha1.BGPSession{{Peer: "tor1", State: "Established"}}
				s.Agents[2].Status.Sessions = []v1alpha1.BGPSession{{Peer: "tor1", State: "Active", Message: "bad password"}}
			},
			w2: "session with BGPPeer tor1 is Active: bad password",
		},
		{
			name: "externalTrafficPolicy Local",
			change: func(s *Snapshot) {
				local(s)
				s.Slices = []discoveryv1.EndpointSlice{endpoint("w1", "web", true), endpoint("w2", "web", false)}
			},
			w2: "externalTrafficPolicy Local, and no ready endpoint of shop/web",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := shop()
			tt.change(s)
			why := s.Why("shop/web")
			for i, want := range []string{"label " + v1alpha1.ExcludeLabel, tt.w1, tt.w2} {
				v := why.Nodes[i]
				if v.Against() != want || v.Eligible != (want == "") {
					// The label counts only while another Node is left.
					if i == 0 && !why.Nodes[1].Eligible && !why.Nodes[2].Eligible {
						continue
					}
					t.Errorf("%s: got %q, eligible %t, want %q", v.Node, v.Against(), v.Eligible, want)
				}
			}
		})
	}
}

// kubeadm labels every control plane: a cluster of nothing else has nobody to announce but them.
func TestWhy_ExcludeLabel(t *testing.T) {
	for policy, wantEligible := range map[v1alpha1.ExcludePolicy]bool{
		v1alpha1.ExcludeAuto: true, v1alpha1.ExcludeHonour: false, v1alpha1.ExcludeIgnore: true,
	} {
		s := shop()
		s.Nodes, s.Agents, s.Pools[0].Spec.ExcludeLabel = s.Nodes[:1], s.Agents[:1], policy
		why := s.Why("shop/web")
		if got := why.Nodes[0].Eligible; got != wantEligible {
			t.Errorf("policy %s: eligible %t, want %t", policy, got, wantEligible)
		}
		found := slices.ContainsFunc(why.Findings, func(f finding.Finding) bool { return f.ID == finding.NoEligibleNode })
		if found == wantEligible {
			t.Errorf("policy %s: findings are %v", policy, why.Findings)
		}
	}
}

func TestWhy_Findings(t *testing.T) {
	s := shop()
	if got := s.Why("shop/mail").Findings; len(got) != 1 || got[0].ID != finding.PoolExhausted || got[0].Do == "" || got[0].Next != "" {
		t.Errorf("findings of a Service that waits are %+v", got)
	}
	s.Agents[2].Status.Conflicts = []v1alpha1.AddressConflict{
		{Address: "192.0.2.50", MAC: "02:00:00:00:00:99", Interface: "eth0", Seen: metav1.NewMicroTime(now)},
	}
	s.Agents[1].Status.Announcements, s.Pools = nil, nil
	var ids []finding.ID
	for _, f := range s.Why("shop/web").Findings {
		ids = append(ids, f.ID)
	}
	if diff := cmp.Diff([]finding.ID{finding.NotAnnounced, finding.AddressConflict, finding.PoolNotFound}, ids); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	s.Agents[2].Status.RenewTime = metav1.NewMicroTime(now.Add(-time.Hour))
	last := s.Why("shop/web").Findings
	if got := last[len(last)-1]; got.ID != finding.AgentSilent || got.Message != "1 of 3 agents do not report: w2" || got.Next == "" {
		t.Errorf("an agent is silent, and nobody owns the address: %+v", got)
	}
	voters := []string{"cp1", "w1", "w2"}
	s.Agents[0].Status.Voters = []v1alpha1.VoterList{v1alpha1.NewVoterList(voters)}
	last = s.Why("shop/web").Findings
	if got := last[len(last)-1].Message; got != "1 of 3 agents do not report: w2; 1 of 3 votes on addresses of level L2 are missing: w2" {
		t.Errorf("an agent with a vote is silent: %s", got)
	}
	if s.Why("shop/none") != nil {
		t.Error("a Service that is not there has a decision")
	}
}

func TestSharedAddress(t *testing.T) {
	s := shop()
	s.Claims[0].Annotations[v1alpha1.ClaimSharersAnnotation] = "shop/mail"
	s.Services[0].Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	why := s.Why("shop/mail")
	if diff := cmp.Diff([]string{"192.0.2.50"}, why.Addresses); diff != "" {
		t.Errorf("addresses of a sharer (-want +got):\n%s", diff)
	}
	if got := why.Nodes[1].Against(); got != "externalTrafficPolicy Local, and no ready endpoint of shop/web" {
		t.Errorf("against w1 is %q: every sharer needs its endpoint", got)
	}
	s.Claims[0].Annotations[v1alpha1.ClaimReleasedAnnotation] = "2026-11-21T10:00:00Z"
	if got := s.Why("shop/web").Addresses; got != nil {
		t.Errorf("an address that is only kept is shown as one that it has: %v", got)
	}
}

// A Service that an address was claimed for, and that has left it to others, neither has it nor stops its announcement.
func TestSharedAddress_parentLeft(t *testing.T) {
	s := shop()
	s.Claims[0].Annotations[v1alpha1.ClaimSharersAnnotation] = "shop/mail,shop/imap"
	s.Claims[0].Annotations[v1alpha1.ClaimParentLeftAnnotation] = "true"
	s.Services[0].Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	if got := s.Why("shop/web").Claims; len(got) > 0 {
		t.Errorf("the Service that has left has %+v", got)
	}
	why := s.Why("shop/mail")
	if len(why.Claims) != 1 || why.Claims[0].Owner != "shop/mail" || !slices.Equal(why.Claims[0].Sharers, []string{"shop/imap"}) {
		t.Errorf("claims %+v", why.Claims)
	}
	if got := why.Nodes[1].Against(); strings.Contains(got, "shop/web") {
		t.Errorf("against w1 is %q", got)
	}
}

func TestSummary(t *testing.T) {
	s := shop()
	s.Reported = []v1alpha1.NodeRoutes{{
		ObjectMeta: metav1.ObjectMeta{Name: "w1"},
		Routes:     []v1alpha1.AgentRoute{{Destination: "10.244.1.0/24", Via: "198.18.0.2", Node: "w2"}},
	}}
	want := []string{"load balancers: 1 of 3 ready; shop/mail PoolExhausted: ccmadm lb why shop/mail", "routes: 0 of 0"}
	if diff := cmp.Diff(want, s.Summary()); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
	if got := (&Snapshot{}).Summary(); got != nil {
		t.Errorf("a cluster without any has %q", got)
	}
}
