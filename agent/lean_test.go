package agent

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
)

// What no agent reads is not kept, and candidates are those of the whole objects.
func TestLean(t *testing.T) {
	yes, no, w1, w2 := true, false, "w1", "w2"
	ready := discoveryv1.EndpointConditions{Ready: &yes, Serving: &yes, Terminating: &no}
	ending := discoveryv1.EndpointConditions{Ready: &no, Serving: &yes, Terminating: &yes}
	meta := metav1.ObjectMeta{
		Namespace: "shop", Name: "web", UID: "1", ResourceVersion: "2", Generation: 3,
		Annotations: map[string]string{"a": "b"}, OwnerReferences: make([]metav1.OwnerReference, 1),
		ManagedFields: make([]metav1.ManagedFieldsEntry, 1),
		Labels:        map[string]string{discoveryv1.LabelServiceName: "web", "app": "web"},
	}
	identity := metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1", ResourceVersion: "2"}
	port := int32(80)
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: &port}},
		Endpoints: []discoveryv1.Endpoint{
			{NodeName: &w1, Conditions: ready, Addresses: []string{"10.0.0.1"}, TargetRef: &corev1.ObjectReference{}},
			{NodeName: &w2, Conditions: ending, Hints: &discoveryv1.EndpointHints{}, Hostname: &w2, Zone: &w1},
		},
	}
	leanSlice := &discoveryv1.EndpointSlice{
		ObjectMeta: identity, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{NodeName: &w1, Conditions: ready}, {NodeName: &w2, Conditions: ending}},
	}
	leanSlice.Labels = map[string]string{discoveryv1.LabelServiceName: "web"}
	service := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
		ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal, HealthCheckNodePort: 30001,
		Selector: map[string]string{"app": "web"}, ClusterIP: "10.96.0.1", Ports: []corev1.ServicePort{{Port: 80}},
	}}
	service.Status.Conditions = make([]metav1.Condition, 1)
	leanService := &corev1.Service{ObjectMeta: identity, Spec: corev1.ServiceSpec{
		ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal, HealthCheckNodePort: 30001,
	}}
	sending := slice.DeepCopy() // its packets leave with the address of the Service
	sending.Labels[v1alpha1.EgressLabel] = "true"
	leanSending := leanSlice.DeepCopy()
	leanSending.Labels[v1alpha1.EgressLabel], leanSending.Endpoints[0].Addresses = "true", []string{"10.0.0.1"}
	sender := service.DeepCopy()
	sender.Labels[v1alpha1.EgressLabel], sender.CreationTimestamp = "true", metav1.NewTime(time.Unix(1, 0))
	leanSender := leanService.DeepCopy()
	leanSender.Labels, leanSender.CreationTimestamp = map[string]string{v1alpha1.EgressLabel: "true"}, sender.CreationTimestamp
	leanNode := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1", Labels: map[string]string{"rack": "a"}}}
	node := leanNode.DeepCopy()
	node.ManagedFields, node.Status.Images = make([]metav1.ManagedFieldsEntry, 1), make([]corev1.ContainerImage, 1)
	for _, tt := range []struct{ object, want runtime.Object }{
		{slice, leanSlice},
		{service, leanService},
		{sending, leanSending},
		{sender, leanSender},
		{node, leanNode},
		{&v1alpha1.AddressPool{ObjectMeta: node.ObjectMeta}, &v1alpha1.AddressPool{ObjectMeta: leanNode.ObjectMeta}},
	} {
		for range 2 { // an informer may do it twice
			got, err := lean(tt.object.DeepCopyObject())
			if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
				t.Errorf("%T: %v, -want +got:\n%s", tt.object, err, diff)
			}
			tt.object = got.(runtime.Object)
		}
	}
	for what, claim := range map[string]announce.Claim{
		"whole objects": candidatesOf(service, slice), "what is kept of them": candidatesOf(leanService, leanSlice),
	} {
		if !slices.Equal(claim.Candidates, []string{w1, w2}) || !slices.Equal(claim.Ending, []string{w2}) {
			t.Errorf("by %s: %v, of which end %v; want w1 and w2, and w2", what, claim.Candidates, claim.Ending)
		}
	}
}

// candidatesOf a claim of the Service on three Nodes.
func candidatesOf(service *corev1.Service, slice *discoveryv1.EndpointSlice) announce.Claim {
	v := &announce.View{
		Nodes:  map[string]*corev1.Node{"w1": {}, "w2": {}, "w3": {}},
		Agents: map[string]*v1alpha1.NodeAgent{"w1": {}, "w2": {}, "w3": {}},
		Claims: []announce.Claim{{
			Address: netip.MustParseAddr("192.0.2.50"), Level: v1alpha1.LevelBGP,
			Services: []types.NamespacedName{{Namespace: "shop", Name: "web"}},
		}},
	}
	v.SetCandidates(announce.Endpoints{
		Services: map[string]*corev1.Service{"shop/web": service}, Slices: []*discoveryv1.EndpointSlice{slice},
	})
	return v.Claims[0]
}
