package announce

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/relay"
)

// pods are endpoints of Service shop/web, on their Nodes, for a port of the name.
func pods(kind discoveryv1.AddressType, port string, number int32, list ...discoveryv1.Endpoint,
) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: kind, Ports: []discoveryv1.EndpointPort{{Name: &port, Port: &number}}, Endpoints: list,
	}
}

func onNode(node, address string, c discoveryv1.EndpointConditions) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{Addresses: []string{address}, NodeName: &node, Conditions: c}
}

// What a Service of level Proxy leads to, by what changes it.
func TestEndpoints_Frontends(t *testing.T) {
	ready := discoveryv1.EndpointConditions{Ready: new(true)}
	dead := discoveryv1.EndpointConditions{Ready: new(false)}
	ending := discoveryv1.EndpointConditions{Ready: new(false), Serving: new(true), Terminating: new(true)}
	good := []*discoveryv1.EndpointSlice{
		pods("IPv4", "http", 8080, onNode("w1", "10.244.1.2", ready), onNode("w2", "10.244.2.2", ready)),
		pods("IPv4", "http", 8080, onNode("w2", "10.244.2.3", dead)),
		pods("IPv4", "other", 9090, onNode("w1", "10.244.1.2", ready)),
		pods("IPv6", "http", 8080, onNode("w1", "fd00::2", ready)),
	}
	want := func(change func(*relay.Frontend), endpoints ...string) []relay.Frontend {
		f := relay.Frontend{Address: netip.MustParseAddrPort("192.0.2.50:80")}
		for _, text := range endpoints {
			f.Endpoints = append(f.Endpoints, netip.MustParseAddrPort(text))
		}
		if change != nil {
			change(&f)
		}
		return []relay.Frontend{f}
	}
	for _, tt := range []struct {
		name   string
		change func(*corev1.Service)
		slices []*discoveryv1.EndpointSlice
		level  v1alpha1.Level
		want   []relay.Frontend
	}{
		{name: "ready endpoints of the port and family", want: want(nil, "10.244.1.2:8080", "10.244.2.2:8080")},
		{name: "another level", level: v1alpha1.LevelL2},
		{
			name:   "a header",
			change: func(s *corev1.Service) { s.Annotations = map[string]string{v1alpha1.ProxyProtocolAnnotation: "v2"} },
			want:   want(func(f *relay.Frontend) { f.Header = true }, "10.244.1.2:8080", "10.244.2.2:8080"),
		},
		{
			name:   "affinity",
			change: func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP },
			want:   want(func(f *relay.Frontend) { f.Sticky = true }, "10.244.1.2:8080", "10.244.2.2:8080"),
		},
		{
			name:   "source ranges",
			change: func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{" 198.51.100.7/24"} },
			want: want(func(f *relay.Frontend) {
				f.Limited, f.Sources = true, []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}
			}, "10.244.1.2:8080", "10.244.2.2:8080"),
		},
		{
			name:   "externalTrafficPolicy Local",
			change: func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal },
			want:   want(nil, "10.244.1.2:8080"),
		},
		{
			name: "none is ready, and one is about to end",
			slices: []*discoveryv1.EndpointSlice{
				pods("IPv4", "http", 8080, onNode("w1", "10.244.1.2", dead), onNode("w2", "10.244.2.2", ending)),
			},
			want: want(nil, "10.244.2.2:8080"),
		},
		{
			name: "endpoints that lead back, or to the Node itself",
			slices: []*discoveryv1.EndpointSlice{pods("IPv4", "http", 8080, onNode("w1", "192.0.2.50", ready),
				onNode("w1", "192.0.2.51", ready), onNode("w1", "127.0.0.1", ready), onNode("w1", "169.254.169.254", ready))},
			want: want(nil),
		},
		{
			name:   "a port of UDP",
			change: func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolUDP },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list, level := good, v1alpha1.LevelProxy
			if tt.slices != nil {
				list = tt.slices
			}
			if tt.level != "" {
				level = tt.level
			}
			got := frontendsOf(level, tt.change, list)
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateComparable(netip.AddrPort{}, netip.Prefix{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// frontendsOf are those of Service shop/web at 192.0.2.50, as Node w1 sees it. 192.0.2.51 is another's.
func frontendsOf(level v1alpha1.Level, change func(*corev1.Service), list []*discoveryv1.EndpointSlice) []relay.Frontend {
	web := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	web.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}}
	if change != nil {
		change(web)
	}
	v := &View{Node: "w1", Claims: []Claim{
		{
			Address: netip.MustParseAddr("192.0.2.50"), Level: level,
			Services: []types.NamespacedName{{Namespace: "shop", Name: "web"}, {Namespace: "shop", Name: "gone"}},
		},
		{Address: netip.MustParseAddr("192.0.2.51"), Level: v1alpha1.LevelBGP},
	}}
	v.SetCandidates(Endpoints{Services: map[string]*corev1.Service{"shop/web": web}, Slices: list})
	return v.Frontends
}

// An agent that does not say that it can carry, as one of a release of before, is no candidate for level Proxy.
func TestView_SetCandidates_Proxy(t *testing.T) {
	view := twoClaims()
	view.Claims[0].Level = v1alpha1.LevelProxy
	view.Agents["w2"].Status.Proxy = true
	view.SetCandidates(Endpoints{})
	got := [][]string{view.Claims[0].Candidates, view.Claims[1].Candidates}
	if diff := cmp.Diff([][]string{{"w2"}, {"w1", "w2"}}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
