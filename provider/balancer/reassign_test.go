package balancer

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

// A Service that asks for another address while it has none gets one, and not two in a row.
func TestStatus_NothingToReassign(t *testing.T) {
	wants := annotated(v1alpha1.ReassignAnnotation, "true")
	for _, tt := range []struct {
		name, want string
		prepare    func(*world)
		claims     int
	}{
		{"a pool", "192.0.2.50", func(w *world) { w.add("web", wants) }, 1},
		{"an address that it names", "192.0.2.50", func(w *world) {
			w.add("web", wants, annotated(v1alpha1.AddressesAnnotation, "192.0.2.50"))
		}, 1},
		{"a pool that is used up", "", func(w *world) {
			w.add("other")
			w.told()
			w.add("web", wants)
		}, 1},
		{"no pool", "198.18.0.1", func(w *world) {
			w.pools = nil
			w.add("web", wants)
		}, 0},
		{"its own name's address in quarantine", "192.0.2.50", func(w *world) {
			old := w.add("web")
			w.told()
			delete(w.services, allocator.NameOf(old))
			w.told()
			w.add("web", wants)
		}, 1},
		{"a pass that broke off behind its claim", "192.0.2.50", func(w *world) {
			s := w.add("web", wants)
			w.pools = append(w.pools, addressPool("more", "192.0.2.51"))
			before := s.DeepCopy()
			w.told()
			w.services[allocator.NameOf(s)] = before
		}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(addressPool("lan", "192.0.2.50"))
			w.setNodes("198.18.0.1")
			tt.prepare(w)
			for range 3 {
				w.told("192.0.2.50", "192.0.2.51")
				for _, s := range w.services {
					if s.Annotations[v1alpha1.ReassignAnnotation] != "" {
						t.Errorf("Service %s asks still", s.Name)
					}
				}
			}
			if got := w.has("web"); got != tt.want || len(w.objects) != tt.claims {
				t.Errorf("it has %q, want %q; %d claims", got, tt.want, len(w.objects))
			}
		})
	}
}

// It is said, once.
func TestCluster_NothingToReassign(t *testing.T) {
	c := newCluster(t, addressPool("lan", "192.0.2.50-192.0.2.59"))
	c.create("web", annotated(v1alpha1.ReassignAnnotation, "true"))
	s := c.within(5*time.Second, "web", reasonIs(allocator.AnnouncedReason))
	if s.Annotations[v1alpha1.ReassignAnnotation] != "" {
		t.Error("the Service asks still")
	}
	told := c.told()
	for began := time.Now(); !strings.Contains(told, "NothingToReassign") && time.Since(began) < time.Minute; {
		told += c.told()
		time.Sleep(5 * time.Millisecond) // the Event comes after the condition
	}
	if strings.Count(told, "Normal NothingToReassign") != 1 {
		t.Errorf("Events: %q", told)
	}
	first := address(s)
	c.patch("web", `{"metadata":{"annotations":{"`+v1alpha1.ReassignAnnotation+`":"true"}}}`)
	c.within(5*time.Second, "web", func(s *corev1.Service) bool {
		return s.Annotations[v1alpha1.ReassignAnnotation] == "" && address(s) != "" && address(s) != first
	})
	if told := c.told(); strings.Contains(told, "NothingToReassign") {
		t.Errorf("Events: %q", told)
	}
}
