package agent

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// A claim of an address at which clients reach the API server is in no view, so that no agent takes or probes it, even
// where the claim says that the network was asked. DNS that fails later changes nothing.
func TestCaches_ViewWithoutControlPlane(t *testing.T) {
	c, err := newCaches(&rest.Config{Host: "https://api.example:6443"})
	must(t, err)
	answers := []netip.Addr{addr("192.0.2.20")}
	c.apiServers.names.Lookup = func(context.Context, string, string) ([]netip.Addr, error) {
		if answers == nil {
			return nil, errors.New("no answer")
		}
		return answers, nil
	}
	now := time.Now()
	c.apiServers.now = func() time.Time { return now }
	c.apiServers.hosts = append(c.apiServers.hosts, "192.0.2.10") // of --control-plane-vip
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "kubernetes", Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"},
		},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.11"}}},
	}
	kept, err := lean(slice)
	must(t, err)
	must(t, c.slices.GetStore().Add(kept))
	for _, text := range []string{"192.0.2.10", "192.0.2.11", "192.0.2.20", "192.0.2.30"} {
		must(t, c.claims.GetStore().Add(&networkingv1.IPAddress{
			ObjectMeta: metav1.ObjectMeta{
				Name: text, Labels: map[string]string{networkingv1.LabelManagedBy: v1alpha1.ClaimManager},
				Annotations: map[string]string{v1alpha1.ClaimLevelAnnotation: "L2", v1alpha1.ClaimProbedAnnotation: "yes"},
			},
			Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Namespace: "shop", Name: "web"}},
		}))
	}
	for _, when := range []string{"DNS answers", "DNS fails"} {
		c.apiServers.look(t.Context())
		var got []string
		for _, claim := range c.view("w1").Claims {
			got = append(got, claim.Address.String())
		}
		if diff := cmp.Diff([]string{"192.0.2.30"}, got); diff != "" {
			t.Errorf("%s: addresses that the agent may announce (-want +got):\n%s", when, diff)
		}
		answers, now = nil, now.Add(time.Hour)
	}
}
