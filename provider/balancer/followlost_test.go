package balancer

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

// TestFollow_LostByOthers: a tenant names an address in the annotation that ccmadm writes. What ccmadm never gave is not claimed, though a
// pool has its host part.
func TestFollow_LostByOthers(t *testing.T) {
	const foreign, ofNode = "fd00:9::5", "2001:db8:1::11"
	for _, tt := range []struct {
		name, address string
		nodes, later  []string // when the condition was written, and when the annotation is read
	}{
		{"of another implementation", foreign, nil, nil},
		{"of a Node that is deleted", ofNode, []string{ofNode}, nil},
		{"of a Node with another prefix", ofNode, []string{ofNode}, []string{"2001:db8:2::11"}},
	} {
		for _, request := range []string{"", tt.address, strings.Repeat("2001:db8:2::5 ", 2) + tt.address + " stays: "} {
			t.Run(tt.name+" "+request, func(t *testing.T) {
				home := dynamicPool("home", "2001:db8:2::/64", "::5-::20")
				home.Spec.Serve.Namespaces = []string{"infra"}
				w := newWorld(home)
				w.setNodes(tt.nodes...)
				w.add("web", ofIPv6, annotated("metallb.io/loadBalancerIPs", request), withStatus(tt.address))
				w.told()
				if got := w.says("web"); w.has("web") != tt.address || got == "" || strings.HasPrefix(got, allocator.AnnouncedReason) {
					t.Fatalf("it has %q, and says %q: nothing is tested", w.has("web"), got)
				}
				w.service("web").Annotations[v1alpha1.AllocatedAnnotation] = tt.address
				w.setNodes(tt.later...)
				for range 2 {
					w.told(w.live()...)
					if got := w.live(); len(got) > 0 {
						t.Fatalf("claims %v; it says %q", got, w.says("web"))
					}
				}
			})
		}
	}
}

// poolOf is the pool of a claim.
func (w *world) poolOf(address string) string {
	c, _ := allocator.ParseClaim(w.objects[address])
	return c.Pool
}

// TestFollow_LostBetweenPools: two pools have the host part of an address whose claim is lost. It goes to none of them by a guess, and to
// the pool that the condition names.
func TestFollow_LostBetweenPools(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(w *world) // of pool b
		told   bool           // before the claims are lost
		want   string
	}{
		{"both prefixes change", func(w *world) { inPrefix(w.pools[0], "2001:db8:b2::/64") }, false, ""},
		{"the prefix is not known", func(w *world) { inPrefix(w.pools[0], "") }, true, ""},
		{"the pool is disabled", func(w *world) {
			inPrefix(w.pools[0], "2001:db8:b2::/64")
			w.pools[0].Spec.Disabled = true
		}, true, "b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(dynamicPool("b", "2001:db8:1::/64", "::5"))
			w.add("web", ofIPv6)
			w.settled(t)
			first := dynamicPool("a", "2001:db8:a::/64", "::5")
			first.Spec.Priority = 10
			w.pools = append(w.pools, first)
			w.settled(t)
			inPrefix(first, "2001:db8:a2::/64")
			tt.change(w)
			if tt.told {
				w.told(under1)
			}
			clear(w.objects)
			for range 3 {
				w.told(under1)
			}
			if got := w.live(); !slices.Equal(got, []string{under1}) || w.has("web") != under1 || w.poolOf(under1) != tt.want {
				t.Errorf("it has %q, says %q, and the claim is of pool %q; claims %v", w.has("web"), w.says("web"), w.poolOf(under1), got)
			}
		})
	}
}

// TestFollow_LostOfPoolThatIsGone: the claim of an address of a pool with ranges that is gone is lost, while no agent announces the address. No
// pool with its host part takes it over.
func TestFollow_LostOfPoolThatIsGone(t *testing.T) {
	w := newWorld(addressPool("old", "2001:db8:9::5-2001:db8:9::6"))
	w.add("web", ofIPv6)
	w.settled(t)
	before := w.has("web")
	w.pools = []*v1alpha1.AddressPool{dynamicPool("home", "2001:db8:2::/64", "::5-::20")}
	w.service("web").Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	w.told()
	if got := w.says("web"); !strings.HasPrefix(got, "NoReadyEndpoint: ") || !strings.Contains(got, before+allocator.OutOfPools) {
		t.Errorf("it says %q", got)
	}
	clear(w.objects)
	w.told()
	w.settled(t)
	if w.has("web") != before || w.poolOf(before) != "" {
		t.Errorf("it has %q, before %q, and says %q; claims %v", w.has("web"), before, w.says("web"), w.live())
	}
}

// TestFollow_OtherPoolOnce: a Service that requests another pool has its address of that, though the write of its status fails, and both
// pools have the host part.
func TestFollow_OtherPoolOnce(t *testing.T) {
	w := newWorld(dynamicPool("a", "2001:db8:1::/64", "::5"), dynamicPool("b", "2001:db8:b::/64", "::5"))
	w.add("web", ofIPv6, annotated(v1alpha1.PoolAnnotation, "a"))
	w.settled(t)
	inPrefix(w.pools[0], "")
	w.told(under1)
	w.service("web").Annotations[v1alpha1.PoolAnnotation] = "b"
	w.service("web").Annotations[v1alpha1.ReassignAnnotation] = "true"
	for _, do := range w.claimSteps(allocator.Allocate(w.snapshot())) {
		do()
	}
	as := allocator.Allocate(w.snapshot()).Services[types.NamespacedName{Namespace: "default", Name: "web"}]
	if got := as.By[true]; got != netip.MustParseAddr("2001:db8:b::5") || as.Problem != nil || !as.Moot {
		t.Errorf("it has %s, and the request for another one is done: %t; %v", got, as.Moot, as.Problem)
	}
}

// TestStatus_NamesWhatItHas: the condition speaks of an address that another one has replaced. It names that as long as no agent announces it.
func TestStatus_NamesWhatItHas(t *testing.T) {
	w := newWorld(dynamicPool("home", "2001:db8:1::/64", "::5"))
	w.add("web", ofIPv6)
	w.settled(t)
	meta.SetStatusCondition(&w.service("web").Status.Conditions, metav1.Condition{
		Type: v1alpha1.LoadBalancerReady, Status: metav1.ConditionFalse, Reason: "NotAnnounced", Message: "no agent announces " + under2 + "; of before",
	})
	w.told()
	if got := w.says("web"); w.has("web") != under1 || !strings.HasPrefix(got, "NotAnnounced: no agent announces "+under1+" yet") {
		t.Errorf("it has %q, and says %q", w.has("web"), got)
	}
}
