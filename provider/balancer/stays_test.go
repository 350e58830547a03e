package balancer

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

// change is something that happens to a world in which a Service has an address: is it to have the same then?
type change struct {
	name   string
	change func(w *world, s *corev1.Service)
	same   bool
}

func testChanges(t *testing.T, changes []change) {
	t.Helper()
	for _, tt := range changes {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(addressPool("lan", "192.0.2.0/24"))
			s := w.add("web")
			before := w.pass().of(s)
			tt.change(w, s)
			for range 3 {
				if got := w.pass().of(s); got == "" || (got == before) != tt.same {
					t.Errorf("got %s, before %s: same is to be %t", got, before, tt.same)
				}
			}
			if s.Annotations[v1alpha1.ReassignAnnotation] != "" {
				t.Error("the Service still asks for another address")
			}
		})
	}
}

// namesLAN lets the Service ask for pool lan.
func namesLAN(w *world, s *corev1.Service) {
	s.Annotations[v1alpha1.PoolAnnotation] = "lan"
	w.pass()
}

// loses the claims; what was given is published.
func loses(w *world, s *corev1.Service) {
	clear(w.objects)
	withStatus(s.Annotations[v1alpha1.AllocatedAnnotation])(s)
	saysAnnounced(s)
}

// losesWhat is in no pool any more, and of which the condition says that something is wrong.
func losesWhat(w *world, s *corev1.Service, reason, message string) {
	loses(w, s)
	w.pools[0] = addressPool("lan", "198.51.100.0/24")
	meta.SetStatusCondition(&s.Status.Conditions, metav1.Condition{
		Type: v1alpha1.LoadBalancerReady, Status: metav1.ConditionFalse, Reason: reason,
		Message: fmt.Sprintf(message, s.Annotations[v1alpha1.AllocatedAnnotation]),
	})
}

// saysAnnounced is what is said of a Service with claims.
func saysAnnounced(s *corev1.Service) {
	meta.SetStatusCondition(&s.Status.Conditions, metav1.Condition{
		Type: v1alpha1.LoadBalancerReady, Status: metav1.ConditionTrue, Reason: allocator.AnnouncedReason,
	})
}

// What a Service has stays, whatever becomes of pools, and it comes back to who had it.
func TestAllocate_Stays(t *testing.T) {
	testChanges(t, []change{
		{"nothing", func(*world, *corev1.Service) {}, true},
		{"the pool is gone", func(w *world, _ *corev1.Service) { w.pools = nil }, true},
		{"the pool has other addresses", func(w *world, _ *corev1.Service) {
			w.pools = []*v1alpha1.AddressPool{addressPool("lan", "198.51.100.0/24")}
		}, true},
		{"the pool is disabled", func(w *world, _ *corev1.Service) { w.pools[0].Spec.Disabled = true }, true},
		{"the pool serves others", func(w *world, _ *corev1.Service) { w.pools[0].Spec.Serve.Namespaces = []string{"x"} }, true},
		{"the pool that it names has other addresses", func(w *world, s *corev1.Service) {
			namesLAN(w, s)
			w.pools[0] = addressPool("lan", "198.51.100.0/24")
		}, true},
		{"the pool that it names is another one's now", func(w *world, s *corev1.Service) {
			namesLAN(w, s)
			w.pools = []*v1alpha1.AddressPool{addressPool("lan", "198.51.100.0/24"), addressPool("old", "192.0.2.0/24")}
		}, true},
		{"the pool that it names is gone, and made again", func(w *world, s *corev1.Service) {
			namesLAN(w, s)
			w.pools = []*v1alpha1.AddressPool{addressPool("old", "192.0.2.0/24")}
			w.pass()
			w.pools = []*v1alpha1.AddressPool{addressPool("lan", "198.51.100.0/24"), addressPool("old", "192.0.2.0/24")}
		}, true},
		{"it names the pool that has its address now", func(w *world, s *corev1.Service) {
			namesLAN(w, s)
			w.pools = []*v1alpha1.AddressPool{addressPool("lan", "198.51.100.0/24"), addressPool("old", "192.0.2.0/24")}
			w.pass()
			s.Annotations[v1alpha1.PoolAnnotation] = "old"
		}, true},
		{"it names another pool", func(w *world, s *corev1.Service) {
			w.pools = append(w.pools, addressPool("other", "198.51.100.0/24"))
			s.Annotations[v1alpha1.PoolAnnotation] = "other"
		}, false},
		{"it asks for what is in use", func(w *world, s *corev1.Service) {
			other := w.add("other")
			s.Annotations[v1alpha1.AddressesAnnotation] = w.pass().of(other)
		}, true},
		{"it is made again", func(w *world, s *corev1.Service) {
			delete(w.services, allocator.NameOf(s))
			w.pass()
			for n := range 100 { // which would be glad to have it
				w.add(fmt.Sprint("many-", n))
			}
			w.pass()
			w.services[allocator.NameOf(s)] = s
			delete(s.Annotations, v1alpha1.AllocatedAnnotation)
		}, true},
		{"it is made again, too late", func(w *world, s *corev1.Service) {
			delete(w.services, allocator.NameOf(s))
			w.pass()
			w.now = w.now.Add(time.Minute)
			w.pass()
			other := w.add("other", annotated(v1alpha1.AddressesAnnotation, s.Annotations[v1alpha1.AllocatedAnnotation]))
			if w.pass().of(other) == "" {
				panic("the quarantine has not ended")
			}
			w.services[allocator.NameOf(s)] = s
		}, false},
		{"it asks for another one", func(_ *world, s *corev1.Service) {
			s.Annotations[v1alpha1.ReassignAnnotation] = "true"
		}, false},
	})
}

// What a Service has by its annotation and its status is claimed again where claims were lost, whatever becomes of
// pools.
func TestAllocate_ClaimsLost(t *testing.T) {
	testChanges(t, []change{
		{"claims are lost", func(w *world, _ *corev1.Service) { clear(w.objects) }, true},
		{"claims are lost, and the pool is disabled", func(w *world, s *corev1.Service) {
			loses(w, s)
			w.pools[0].Spec.Disabled = true
		}, true},
		{"claims are lost, and the pool is broken", func(w *world, s *corev1.Service) {
			loses(w, s)
			w.pools[0].Spec.Ranges = append(w.pools[0].Spec.Ranges, "192.0.2.300")
		}, true},
		{"claims are lost, and the pool has other addresses", func(w *world, s *corev1.Service) {
			loses(w, s)
			w.pools[0] = addressPool("lan", "198.51.100.0/24")
		}, true},
		{"claims are lost, and the pool that it names has other addresses", func(w *world, s *corev1.Service) {
			namesLAN(w, s)
			loses(w, s)
			w.pools[0] = addressPool("lan", "198.51.100.0/24")
		}, true},
		{"claims and pools are lost", func(w *world, s *corev1.Service) {
			loses(w, s)
			w.pools = nil
		}, true},
		{"claims are lost, and an older Service names the address", func(w *world, s *corev1.Service) {
			loses(w, s)
			w.add("older", func(other *corev1.Service) {
				other.CreationTimestamp = metav1.NewTime(start)
				annotated(v1alpha1.AllocatedAnnotation, s.Annotations[v1alpha1.AllocatedAnnotation])(other)
			})
		}, true},
		{"claims are lost, and the address is a Node's", func(w *world, s *corev1.Service) {
			loses(w, s)
			w.setNodes(s.Annotations[v1alpha1.AllocatedAnnotation])
			w.pools[0] = addressPool("lan", "198.51.100.0/24")
		}, false},
		{"claims are lost, and the Service had the addresses of Nodes, of which one is gone", func(w *world, s *corev1.Service) {
			loses(w, s)
			s.Status.Conditions[0].Reason = allocator.NodeIPReason
			w.pools[0] = addressPool("lan", "198.51.100.0/24")
		}, false},
		{"claims are lost, and no agent announces the address", func(w *world, s *corev1.Service) {
			losesWhat(w, s, "NotAnnounced", "no agent announces %s; 3 node agents report; do this")
		}, true},
		{"claims are lost, and no agent reports", func(w *world, s *corev1.Service) {
			losesWhat(w, s, "AgentSilent", "no agent announces %s: no node agent has reported for 1m0s; do this")
		}, true},
		{"claims are lost, and another machine answers", func(w *world, s *corev1.Service) {
			losesWhat(w, s, "AddressConflict", "%s: MAC answers for it; do this")
		}, true},
		{"claims are lost, and there is no endpoint", func(w *world, s *corev1.Service) {
			losesWhat(w, s, "NoReadyEndpoint", "no ready endpoint; externalTrafficPolicy is Local, so no Node announces %s; do this")
		}, true},
		{"claims are lost, and the condition is of another one", func(w *world, s *corev1.Service) {
			losesWhat(w, s, "NotAnnounced", "no agent announces 203.0.113.5; 3 node agents report; do this; annotation is wrong: %s is none")
		}, false},
		{"claims are lost, and the Service has no address", func(w *world, s *corev1.Service) {
			losesWhat(w, s, "AddressInUse", "%s is claimed by an IPAddress of another owner")
		}, false},
		{"claims are lost, and another Service has one", func(w *world, s *corev1.Service) {
			loses(w, s)
			other := w.add("other")
			other.Annotations[v1alpha1.AddressesAnnotation] = s.Annotations[v1alpha1.AllocatedAnnotation]
			delete(w.services, allocator.NameOf(s))
			w.pass()
			w.services[allocator.NameOf(s)] = s
		}, false},
		{"claims and annotation are lost", func(w *world, s *corev1.Service) {
			loses(w, s)
			delete(s.Annotations, v1alpha1.AllocatedAnnotation)
			delete(w.services, allocator.NameOf(s))
			s.Name = "renamed" // or the hash of the name would find it
			w.services[allocator.NameOf(s)] = s
		}, true},
	})
}

// An address that was released by a clock which was far ahead is free after its quarantine, and no year later.
func TestAllocate_ClockWasAhead(t *testing.T) {
	w := newWorld(addressPool("lan", "192.0.2.50"))
	first := w.add("first")
	w.pass()
	delete(w.services, allocator.NameOf(first))
	w.now = w.now.AddDate(1, 0, 0)
	w.pass()
	w.now = start
	other := w.add("other")
	w.pass()
	w.now = w.now.Add(59 * time.Second)
	if p := w.pass(); p.of(other) != "" || p.Wake.Sub(w.now) != time.Second {
		t.Errorf("within the quarantine it has %q, and the next look is at %s", p.of(other), p.Wake)
	}
	w.now = w.now.Add(time.Second)
	w.pass()
	if got := w.pass().of(other); got != "192.0.2.50" {
		t.Errorf("after the quarantine it has %q", got)
	}
}
