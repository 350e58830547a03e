package balancer

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// TestAllocate_SharingEdited: Services that share the one address of a pool are edited so that they may not, and back.
// The older one has the address then; the other waits for it, and has it again once both agree.
func TestAllocate_SharingEdited(t *testing.T) {
	key := annotated(v1alpha1.ShareKeyAnnotation, "k")
	pods := func(app string) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": app} }
	}
	local := func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal }
	w := newWorld(addressPool("lan", "192.0.2.1"))
	a, b := w.add("a", key, pods("a")), w.add("b", key, onPort(81), pods("b"))
	for _, step := range []struct {
		name  string
		edit  func()
		wants string
	}{
		{"one key, other pods", func() {}, "192.0.2.1 192.0.2.1 "},
		{"the second becomes Local", func() { local(b) }, "192.0.2.1  PoolExhausted"},
		{"the first becomes Local, too", func() { local(a) }, "192.0.2.1  PoolExhausted"},
		{"with the pods of the second", func() { pods("b")(a) }, "192.0.2.1 192.0.2.1 "},
		{"the first has other pods again", func() { pods("a")(a) }, "192.0.2.1  PoolExhausted"},
		{"the second has the same", func() { pods("a")(b) }, "192.0.2.1 192.0.2.1 "},
		{"one port for both", func() { onPort(80)(b) }, "192.0.2.1  PoolExhausted"},
		{"another one", func() { onPort(82)(b) }, "192.0.2.1 192.0.2.1 "},
	} {
		step.edit()
		w.pass()
		p := w.pass()
		if got := fmt.Sprint(p.of(a), " ", p.of(b), " ", p.reason(b)); got != step.wants {
			t.Errorf("%s: got %q, want %q", step.name, got, step.wants)
		}
	}
}

// TestAllocate_SecondFamily: a Service that prefers both families takes the second when a pool has it, and the one that it has
// stays; one that requires both has both or none.
func TestAllocate_SecondFamily(t *testing.T) {
	both := []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	w := newWorld(addressPool("lan", "192.0.2.1"))
	s := w.add("web", families(corev1.IPFamilyPolicyPreferDualStack, both...))
	policy := func(p corev1.IPFamilyPolicy) { s.Spec.IPFamilyPolicy = &p }
	ranges := func(list ...string) { w.pools[0] = addressPool("lan", list...) }
	for _, step := range []struct {
		name  string
		edit  func()
		wants string
	}{
		{"a pool of one family", func() {}, "192.0.2.1 "},
		{"it requires both", func() { policy(corev1.IPFamilyPolicyRequireDualStack) }, " NoSuchFamily"},
		{"it prefers both again", func() { policy(corev1.IPFamilyPolicyPreferDualStack) }, "192.0.2.1 "},
		{"another pool has both", func() {
			w.pools = append(w.pools, addressPool("z", "198.51.100.1", "2001:db8::1"))
		}, "192.0.2.1,2001:db8::1 "},
		{"that pool is gone", func() { w.pools = w.pools[:1] }, "192.0.2.1,2001:db8::1 "},
		{"its own has other addresses of one family", func() { ranges("192.0.2.9") }, "192.0.2.1,2001:db8::1 "},
	} {
		step.edit()
		w.pass()
		p := w.pass()
		if got := fmt.Sprint(p.of(s), " ", p.reason(s)); got != step.wants {
			t.Errorf("%s: got %q, want %q", step.name, got, step.wants)
		}
	}
}

// TestAllocate_FirstFamily: where one family is left, a Service that prefers both has the address of that one, whichever it
// names first.
func TestAllocate_FirstFamily(t *testing.T) {
	for _, first := range [][]corev1.IPFamily{
		{corev1.IPv4Protocol, corev1.IPv6Protocol}, {corev1.IPv6Protocol, corev1.IPv4Protocol},
	} {
		w := newWorld(addressPool("six", "2001:db8::1"))
		s := w.add("web", families(corev1.IPFamilyPolicyPreferDualStack, first...))
		if got := w.pass().of(s); got != "2001:db8::1" {
			t.Errorf("%v: got %q", first, got)
		}
	}
}
