package balancer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

// A tenant with two Services on a shared address gives one of them the port of the other namespace, takes away the annotation that
// tells of the address, and asks for it. What it has lost leaves its status, although the tenant's other Service has the address still.
func TestStatus_LostBesideAnotherOfTheTenant(t *testing.T) {
	const shared = "192.0.2.1"
	w := newWorld(addressPool("lan", shared))
	w.setNodes("198.18.0.1")
	a, b, c := w.add("web", tenant("a", 443, "k", "b")), w.add("mail", tenant("b", 25, "k", "a")), w.add("imap", tenant("b", 143, "k", "a"))
	w.told(shared)
	w.told(shared)
	latest := func(s *corev1.Service) *corev1.Service { return w.services[allocator.NameOf(s)] }
	for _, s := range []*corev1.Service{a, b, c} {
		if got := address(latest(s)); got != shared {
			t.Fatalf("%s has %q", s.Name, got)
		}
	}
	c = latest(c)
	onPort(443)(c)
	delete(c.Annotations, v1alpha1.AllocatedAnnotation)
	asks(shared)(c)
	for range 3 {
		w.told(shared)
		if got := address(latest(c)); got != "" {
			t.Errorf("it still has %s, on the port of another tenant", got)
		}
		if address(latest(a)) != shared || address(latest(b)) != shared {
			t.Errorf("the owner has %q, the tenant's other Service %q", address(latest(a)), address(latest(b)))
		}
	}
}

// A list of ours that is empty is no consent, whatever the annotation of Cilium says.
func TestAllocate_EmptyListWithdraws(t *testing.T) {
	w := newWorld(addressPool("lan", "192.0.2.1-192.0.2.2"))
	cilium := annotated("lbipam.cilium.io/sharing-cross-namespace", "b")
	a, b := w.add("web", tenant("a", 443, "k", ""), cilium), w.add("mail", tenant("b", 25, "k", "a"))
	if p := w.pass(); p.of(a) != p.of(b) {
		t.Fatalf("they do not share: %q, %q", p.of(a), p.of(b))
	}
	annotated(v1alpha1.ShareNamespacesAnnotation, "")(a)
	w.pass()
	if p := w.pass(); p.of(a) == p.of(b) || p.of(a) == "" || p.of(b) == "" {
		t.Errorf("got %q, %q", p.of(a), p.of(b))
	}
}

// A namespace was deleted, and a stranger has made it again. Its name is in a list still. The stranger's Service, of the name
// that the address was claimed for first, may join, and is the last of those who have it.
func TestAllocate_StrangerOfTheSameName(t *testing.T) {
	w := newWorld(addressPool("lan", "192.0.2.1-192.0.2.9"))
	a, b := w.add("web", tenant("a", 443, "k", "b")), w.add("mail", tenant("b", 25, "k", "a"))
	address := w.pass().of(a)
	delete(w.services, types.NamespacedName{Namespace: "a", Name: "web"})
	w.pass()
	stranger := w.add("web", tenant("a", 80, "k", "b"), asks(address))
	if p := w.pass(); p.of(b) != address || p.of(stranger) != address {
		t.Fatalf("they do not share: %q, %q", p.of(b), p.of(stranger))
	}
	w.pass()
	onPort(25)(stranger)
	for range 3 {
		if p := w.pass(); p.of(b) != address || p.of(stranger) != "" {
			t.Errorf("Service mail, which has had the address all along, has %q, the stranger %q", p.of(b), p.of(stranger))
		}
	}
}

// A Service has an address of another implementation, as MetalLB, in its status. An older one of a tenant claims in its annotation to have
// had the address, and asks for it: tenants write annotations, and no status.
func TestAllocate_AnnotationNamesAddressOfAnother(t *testing.T) {
	const address = "192.0.2.5"
	w := newWorld(addressPool("lan", "192.0.2.1-192.0.2.9"))
	tenants := w.add("thief", annotated(v1alpha1.AllocatedAnnotation, address), asks(address))
	tenants.CreationTimestamp = metav1.NewTime(start)
	served := w.add("served", func(s *corev1.Service) {
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
	})
	for range 2 {
		if p := w.pass(); p.of(served) != address || p.of(tenants) == address {
			t.Errorf("the Service that has had the address has %q, the tenant's %q", p.of(served), p.of(tenants))
		}
	}
}

// An address is kept for the Service that had it last. The message says so.
func TestAllocate_ReservedForTheLast(t *testing.T) {
	w := newWorld(addressPool("lan", "192.0.2.1"))
	a, b := w.add("web", tenant("a", 443, "k", "b")), w.add("mail", tenant("b", 25, "k", "a"))
	address := w.pass().of(a)
	delete(w.services, allocator.NameOf(a))
	w.pass()
	delete(w.services, allocator.NameOf(b))
	w.pass()
	again := w.add("web", tenant("a", 443, "k", "b"), asks(address))
	p := w.pass()
	if problem := p.Services[allocator.NameOf(again)].Problem; problem == nil || !strings.Contains(problem.Message, "reserved for Service/b/mail until") {
		t.Errorf("the reason is %v", problem)
	}
}

// Tenants may give their Services thousands of ports. That no two of these share an address is found without comparing each port
// with each.
func TestAllocate_ManyPorts(t *testing.T) {
	w := newWorld(addressPool("lan", "192.0.2.0/28"))
	for i := range 300 {
		s := w.add(fmt.Sprint("s", i), tenant("b", 1, "k", "a"))
		s.Spec.Ports = nil
		for j := range 1000 {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Port: int32(60*j + 1 + i%30), Protocol: corev1.ProtocolTCP})
		}
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Port: 65000, Protocol: corev1.ProtocolTCP})
	}
	began := time.Now()
	w.pass()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("a pass takes %s", took)
	}
}

// A tenant leaves no room for annotations in its Service, so that the API server refuses the patch that gives it another address. The
// one that it has lost is withdrawn all the same.
func TestCluster_LostWithoutRoomForAnnotations(t *testing.T) {
	const shared = "192.0.2.50"
	c := newCluster(t, addressPool("lan", "192.0.2.50-192.0.2.59"))
	c.createIn("share-a", "web", inNamespace(443, "share-b", asks(shared)))
	c.eventually("share-a", "web", reasonIs(allocator.AnnouncedReason))
	c.createIn("share-b", "mail", inNamespace(25, "share-a"))
	shares := func(s *corev1.Service) bool { return hasAddress(shared)(s) && reasonIs(allocator.AnnouncedReason)(s) }
	s := c.eventually("share-b", "mail", shares)
	s.Spec.Ports[0].Port = 443
	delete(s.Annotations, v1alpha1.AllocatedAnnotation)
	size := 0
	for key, value := range s.Annotations {
		size += len(key) + len(value)
	}
	s.Annotations["fill"] = strings.Repeat("x", 256<<10-size-len("fill"))
	if _, err := c.client.CoreV1().Services("share-b").Update(t.Context(), s, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.eventually("share-b", "mail", func(s *corev1.Service) bool { return address(s) == "" })
	c.eventually("share-a", "web", shares)
}

// Thousands of Services with share keys look in vain for an address to share, and their pool is used up: none asks all others.
func TestAllocate_ManyShareKeys(t *testing.T) {
	w := newWorld(addressPool("lan", "10.0.0.0/22"))
	for n := range 6000 {
		key := "k"
		if n%2 == 0 {
			key = fmt.Sprint("k", n)
		}
		w.add(fmt.Sprint("s", n), annotated(v1alpha1.ShareKeyAnnotation, key))
	}
	w.pass()
	s, began := w.snapshot(), time.Now()
	allocator.Allocate(s)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("a pass takes %s", took)
	}
}

// Of several addresses that a Service may share it gets that of the oldest Service, of whichever namespace, that agrees.
func TestAllocate_SharesWithTheOldest(t *testing.T) {
	w := newWorld(addressPool("lan", "192.0.2.1-192.0.2.9"))
	first := w.add("first", tenant("c", 443, "k", "a"))      // does not list b
	taken := w.add("taken", tenant("a", 25, "k", "b"))       // has the port
	oldest := w.add("oldest", tenant("a", 80, "k", "b"))     // is refused by neither
	younger := w.add("younger", tenant("b", 80, "k", "a,c")) // of its own namespace
	w.pass()
	late := w.add("late", tenant("b", 25, "k", "a,c"))
	p := w.pass()
	if p.of(taken) != p.of(oldest) || p.of(first) == p.of(taken) || p.of(younger) == p.of(oldest) {
		t.Fatalf("first %s, taken %s, oldest %s, younger %s", p.of(first), p.of(taken), p.of(oldest), p.of(younger))
	}
	if p.of(late) != p.of(younger) {
		t.Errorf("late has %s; younger has %s", p.of(late), p.of(younger))
	}
	next := w.add("next", tenant("b", 143, "k", "a,c"))
	if p := w.pass(); p.of(next) != p.of(oldest) {
		t.Errorf("next has %s, and oldest has %s", p.of(next), p.of(oldest))
	}
}
