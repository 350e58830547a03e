package balancer

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// TestFollow_Reassign: a Service that is to get another address while its second claim waits leaves both.
func TestFollow_Reassign(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before int // passes under the new prefix
		change func(*corev1.Service)
	}{
		{"another address", 1, annotated(v1alpha1.ReassignAnnotation, "true")},
		{"in the same pass", 0, annotated(v1alpha1.ReassignAnnotation, "true")},
		{"an address that it asks for", 1, annotated(v1alpha1.AddressesAnnotation, "2001:db8:2::f000:77")},
		{"another pool", 1, annotated(v1alpha1.PoolAnnotation, "other")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			other := addressPool("other", "2001:db8:9::/120")
			other.Spec.AutoAssign = new(false)
			w := newWorld(dynamicPool("home", "2001:db8:1::/64", "::f000:0-::f000:ff"), other)
			w.add("web", ofIPv6)
			w.settled(t)
			first := w.has("web")
			second := strings.Replace(first, "2001:db8:1:", "2001:db8:2:", 1)
			inPrefix(w.pools[0], "2001:db8:2::/64")
			for range tt.before {
				w.told(first)
			}
			tt.change(w.services[types.NamespacedName{Namespace: "default", Name: "web"}])
			for range 3 {
				w.told(slices.DeleteFunc(w.live(), func(address string) bool { return address == second })...)
			}
			if got, live := w.has("web"), w.live(); got == "" || got == first || got == second || len(live) != 1 || live[0] != got {
				t.Errorf("it has %q, was to leave %s and %s, and says %q; claims %v", got, first, second, w.says("web"), live)
			}
		})
	}
}

// TestFollow_OtherFamily: an address that cannot follow keeps the Service from none of the other family.
func TestFollow_OtherFamily(t *testing.T) {
	w := newWorld(dynamicPool("home", "2001:db8:1::/64", "::5"))
	w.add("web", families(corev1.IPFamilyPolicyPreferDualStack, corev1.IPv6Protocol, corev1.IPv4Protocol))
	w.settled(t)
	inPrefix(w.pools[0], "2001:db8:2::/64")
	w.setNodes("2001:db8:2::5")
	w.settled(t)
	w.pools = append(w.pools, addressPool("lan", "192.0.2.50"))
	w.settled(t)
	want := "AddressInUse: the prefix of AddressPool/home is now 2001:db8:2::/64: 2001:db8:1::5 stays: 2001:db8:2::5 is the InternalIP of Node/"
	if got := w.says("web"); w.has("web") != "2001:db8:1::5,192.0.2.50" || !strings.HasPrefix(got, want) {
		t.Errorf("it has %q, and says %q", w.has("web"), got)
	}
}

// TestFollow_Back: a prefix comes back while the claim under it is kept. The Service does not say at once that no agent announces it.
func TestFollow_Back(t *testing.T) {
	w := newWorld(dynamicPool("home", "2001:db8:1::/64", "::5"))
	w.add("web", ofIPv6)
	w.settled(t)
	const first, second = "2001:db8:1::5", "2001:db8:2::5"
	inPrefix(w.pools[0], "2001:db8:2::/64")
	w.told(first)
	w.told(first, second)
	inPrefix(w.pools[0], "2001:db8:1::/64")
	for _, want := range []string{"Announced: " + second, "NotAnnounced: no agent announces " + first} {
		w.told(second)
		if got := w.says("web"); w.has("web") != second || !strings.HasPrefix(got, want) {
			t.Errorf("it has %q, and says %q, want %q", w.has("web"), got, want)
		}
	}
	w.told(first, second)
	if got := w.has("web"); got != first {
		t.Errorf("announced, it has %q, and says %q", got, w.says("web"))
	}
}
