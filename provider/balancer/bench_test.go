package balancer

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/balancer/evaluation"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// A pass plans everything anew: here nothing has changed.
func BenchmarkAllocate_thousand(b *testing.B) {
	w := newWorld(addressPool("lan", "10.0.0.0/16"))
	for n := range 1000 {
		w.add(fmt.Sprint("s", n))
	}
	w.pass()
	s := w.snapshot()
	for b.Loop() {
		allocator.Allocate(s)
	}
}

// A thousand Services have addresses, and a thousand more with a share key look in vain for one to share: the pool is used up. Or a
// thousand share one address.
func BenchmarkAllocate_share(b *testing.B) {
	key := func(s *corev1.Service, text string) { s.Annotations[v1alpha1.ShareKeyAnnotation] = text }
	for _, bb := range []struct {
		name   string
		one    bool // address
		change func(s *corev1.Service, n int)
	}{
		{"other keys", false, func(s *corev1.Service, n int) { key(s, fmt.Sprint(n)) }},
		{"the same port", false, func(s *corev1.Service, _ int) { key(s, "k") }},
		{"a port beside", false, func(s *corev1.Service, n int) {
			key(s, "k")
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Port: int32(1000 + n), Protocol: corev1.ProtocolTCP})
		}},
		{"namespaces without consent", false, func(s *corev1.Service, n int) {
			key(s, "k")
			s.Namespace = fmt.Sprint("n", n)
		}},
		{"other pods", false, func(s *corev1.Service, n int) {
			key(s, "k")
			s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
			s.Spec.Selector = map[string]string{"app": fmt.Sprint(n)}
			s.Spec.Ports[0].Port = int32(1000 + n)
		}},
		{"one address", true, func(s *corev1.Service, n int) {
			key(s, "k")
			s.Spec.Ports[0].Port = int32(1000 + n)
		}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			w := newWorld(addressPool("lan", "10.0.0.1-10.0.3.232"))
			services := 2000
			if bb.one {
				services = 1000
			}
			for n := range services {
				w.add(fmt.Sprint("s", n), func(s *corev1.Service) { bb.change(s, n) })
			}
			w.pass()
			s := w.snapshot()
			for b.Loop() {
				allocator.Allocate(s)
			}
		})
	}
}

// A thousand Nodes announce the addresses of a thousand Services by BGP: each of them all.
func BenchmarkReports_thousand(b *testing.B) {
	var announcements []v1alpha1.Announcement
	for n := range 1000 {
		announcements = append(announcements, v1alpha1.Announcement{Address: fmt.Sprintf("10.0.%d.%d", n/250, n%250), Level: v1alpha1.LevelBGP})
	}
	now, rank, alive := time.Now(), map[string]int{}, objects.Liveness{}
	var agents []*v1alpha1.NodeAgent
	for n := range 1000 {
		agent := &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", n)}}
		agent.Status.Announcements = append(agent.Status.Announcements, announcements...) // of its own, as the API server's are
		agents, rank[agent.Name] = append(agents, agent), n
	}
	for b.Loop() {
		r := evaluation.ReadReports(agents, nil, alive, now, rank)
		if r.Contested() != 0 || len(r.Announced) != 1000 {
			b.Fatal("the reports are misread")
		}
	}
}
