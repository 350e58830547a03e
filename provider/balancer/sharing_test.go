package balancer

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

// tenant is a Service of a namespace with a port, a share key, and the namespaces that it lists; "": no annotation.
func tenant(namespace string, port int32, key, lists string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		s.Namespace = namespace
		onPort(port)(s)
		if key != "" {
			annotated(v1alpha1.ShareKeyAnnotation, key)(s)
		}
		if lists != "" {
			annotated(v1alpha1.ShareNamespacesAnnotation, lists)(s)
		}
	}
}

func asks(address string) func(*corev1.Service) {
	return annotated(v1alpha1.AddressesAnnotation, address)
}

func becomesLocal(s *corev1.Service) {
	s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	s.Spec.Selector = map[string]string{"app": "same"}
}

// What a tenant tries to get onto the address of Service a/web, which lists namespace b, and how it is refused. Service a/web keeps
// its address alone in each case, and the message never has a port or a key of a Service that did not consent.
func TestAllocate_HostileTenants(t *testing.T) {
	const address = "192.0.2.1"
	web := tenant("a", 443, "k", "b")
	for _, tt := range []struct {
		name           string
		victim         func(*corev1.Service)
		hostile        []func(*corev1.Service)
		reason, detail string
	}{
		{
			"no consent on either side",
			tenant("a", 443, "k", ""),
			[]func(*corev1.Service){tenant("b", 25, "k", "")},
			"AddressInUse", "belongs to Service/a/web",
		},
		{
			"consent of the tenant alone",
			tenant("a", 443, "k", ""),
			[]func(*corev1.Service){tenant("b", 25, "k", "a")},
			"SharingConflict", "of Service/a/web does not list b",
		},
		{
			"consent of the owner alone",
			web,
			[]func(*corev1.Service){tenant("b", 25, "k", "")},
			"SharingConflict", "of this Service does not list a",
		},
		{
			"another namespace than the listed one",
			web,
			[]func(*corev1.Service){tenant("c", 25, "k", "a")},
			"SharingConflict", "of Service/a/web does not list c",
		},
		{
			"a name that begins with the listed one",
			web,
			[]func(*corev1.Service){tenant("bb", 25, "k", "a")},
			"SharingConflict", "does not list bb",
		},
		{
			"every namespace, by the tenant",
			web,
			[]func(*corev1.Service){tenant("b", 25, "k", "*")},
			"SharingConflict", "list the namespaces by name",
		},
		{
			"every namespace, by the owner",
			tenant("a", 443, "k", "*"),
			[]func(*corev1.Service){tenant("b", 25, "k", "a")},
			"SharingConflict", "does not list b",
		},
		{
			"a list that is half malformed, by the owner",
			tenant("a", 443, "k", "b,*"),
			[]func(*corev1.Service){tenant("b", 25, "k", "a")},
			"SharingConflict", "does not list b",
		},
		{"a guessed port and no key", web, []func(*corev1.Service){tenant("b", 443, "", "a")}, "AddressInUse", "belongs to Service/a/web"},
		{"another key", web, []func(*corev1.Service){tenant("b", 25, "other", "a")}, "SharingConflict", "has another share key"},
		{
			"the owner has no key",
			tenant("a", 443, "", "b"),
			[]func(*corev1.Service){tenant("b", 25, "k", "a")},
			"SharingConflict", "has another share key",
		},
		{"the same port", web, []func(*corev1.Service){tenant("b", 443, "k", "a")}, "SharingConflict", "has port 443/TCP, too"},
		{"the same port, without consent", web, []func(*corev1.Service){tenant("c", 443, "k", "a")}, "SharingConflict", "does not list c"},
		{
			"Local, with the selector of the owner",
			func(s *corev1.Service) { web(s); becomesLocal(s) },
			[]func(*corev1.Service){tenant("b", 25, "k", "a"), becomesLocal},
			"SharingConflict", "has other pods",
		},
		{
			"Local of the tenant alone",
			web,
			[]func(*corev1.Service){tenant("b", 25, "k", "a"), becomesLocal},
			"SharingConflict", "has other pods",
		},
		{
			"an annotation as if it had been there",
			tenant("a", 443, "k", ""),
			[]func(*corev1.Service){tenant("b", 25, "k", "a"), annotated(v1alpha1.AllocatedAnnotation, address)},
			"SharingConflict", "does not list b",
		},
		{
			"Cilium's consent to all",
			web,
			[]func(*corev1.Service){tenant("b", 25, "k", ""), annotated("lbipam.cilium.io/sharing-cross-namespace", "*")},
			"SharingConflict", "list the namespaces by name",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, changes := range [][]func(*corev1.Service){append(tt.hostile, asks(address)), tt.hostile} {
				w := newWorld(addressPool("lan", "192.0.2.1-192.0.2.9"))
				victim := w.add("web", tt.victim, asks(address))
				w.pass()
				b := w.add("mail", changes...)
				for range 3 {
					p := w.pass()
					if p.of(victim) != address || p.of(b) == address {
						t.Fatalf("the owner has %q, the tenant %q", p.of(victim), p.of(b))
					}
					if len(changes) == len(tt.hostile) { // it asks for no address, and has one of its own
						if p.of(b) == "" {
							t.Errorf("it has no address: %v", p.Services[allocator.NameOf(b)].Problem)
						}
						continue
					}
					problem := p.Services[allocator.NameOf(b)].Problem
					if p.of(b) != "" || problem == nil || problem.Reason != tt.reason || !strings.Contains(problem.Message, tt.detail) {
						t.Errorf("it has %q: %v, want %s: %s", p.of(b), problem, tt.reason, tt.detail)
					}
				}
			}
		})
	}
}

// Services of two namespaces that consent share an address, whichever is first, also where they say it as Cilium has it.
func TestAllocate_ConsentOfBoth(t *testing.T) {
	cilium := func(namespace string, port int32, lists string) func(*corev1.Service) {
		return func(s *corev1.Service) {
			tenant(namespace, port, "", "")(s)
			s.Annotations["lbipam.cilium.io/sharing-key"], s.Annotations["lbipam.cilium.io/sharing-cross-namespace"] = "k", lists
		}
	}
	for _, tt := range []struct {
		name string
		a, b func(*corev1.Service)
	}{
		{"one name each", tenant("a", 443, "k", "b"), tenant("b", 25, "k", "a")},
		{"several names", tenant("a", 443, "k", "x, b"), tenant("b", 25, "k", "a,y ")},
		{"one port of two protocols", tenant("a", 53, "k", "b"), func(s *corev1.Service) {
			tenant("b", 53, "k", "a")(s)
			s.Spec.Ports[0].Protocol = corev1.ProtocolUDP
		}},
		{"Cilium's annotations", cilium("a", 443, "b"), cilium("b", 25, "a")},
		{"ours and Cilium's", tenant("a", 443, "k", "b"), cilium("b", 25, "a")},
	} {
		for _, order := range [][]func(*corev1.Service){{tt.a, tt.b}, {tt.b, tt.a}} {
			w := newWorld(addressPool("lan", "192.0.2.0/24"))
			first, second := w.add("first", order[0]), w.add("second", order[1])
			p := w.pass()
			if p.of(first) == "" || p.of(first) != p.of(second) || p.reason(first)+p.reason(second) != "" {
				t.Errorf("%s: got %q and %q, %s %s", tt.name, p.of(first), p.of(second), p.reason(first), p.reason(second))
			}
		}
	}
}

// Every pair that shares an address has to consent: a third tenant does not come along with the second.
func TestAllocate_ConsentOfEveryPair(t *testing.T) {
	w := newWorld(addressPool("lan", "192.0.2.0/24"))
	a, b := w.add("web", tenant("a", 443, "k", "b")), w.add("mail", tenant("b", 25, "k", "a,c"))
	p := w.pass()
	if p.of(a) != p.of(b) {
		t.Fatalf("got %q and %q", p.of(a), p.of(b))
	}
	c := w.add("git", tenant("c", 22, "k", "a,b"), asks(p.of(a)))
	own := w.add("other", tenant("a", 80, "k", "")) // of the owner's namespace: it does not consent to b
	p = w.pass()
	if p.of(c) != "" || p.reason(c) != "SharingConflict" || p.of(own) == p.of(a) || p.of(own) == "" {
		t.Errorf("the third tenant has %q, %s; a Service of the first %q", p.of(c), p.reason(c), p.of(own))
	}
	annotated(v1alpha1.ShareNamespacesAnnotation, "b,c")(a)
	w.pass()
	if p = w.pass(); p.of(c) != p.of(a) || p.of(b) != p.of(a) {
		t.Errorf("with the consent of all: %q, %q, %q", p.of(a), p.of(b), p.of(c))
	}
}

// A pool that does not serve a namespace gives it no address by way of another one.
func TestAllocate_ConsentIsNoPool(t *testing.T) {
	w := newWorld(limited("lan", "a"))
	a, b := w.add("web", tenant("a", 443, "k", "b")), w.add("mail", tenant("b", 25, "k", "a"), asks("192.0.2.200"))
	if p := w.pass(); p.of(a) != "192.0.2.200" || p.of(b) != "" || p.reason(b) != "NoPoolServes" {
		t.Errorf("got %q, and %q with %s", p.of(a), p.of(b), p.reason(b))
	}
}

// When a Service withdraws its consent, or changes what they agreed on, the one that came to the address later loses it: at once,
// with the reason, and for good. Further passes write nothing.
func TestAllocate_ConsentWithdrawn(t *testing.T) {
	const address = "192.0.2.1"
	for _, tt := range []struct {
		name   string
		edit   func(first, later *corev1.Service)
		detail string
	}{
		{
			"by the first",
			func(first, _ *corev1.Service) { delete(first.Annotations, v1alpha1.ShareNamespacesAnnotation) },
			"of Service/a/web does not list b",
		},
		{
			"by the later",
			func(_, later *corev1.Service) { delete(later.Annotations, v1alpha1.ShareNamespacesAnnotation) },
			"of this Service does not list a",
		},
		{
			"the first mistypes its list",
			func(first, _ *corev1.Service) { annotated(v1alpha1.ShareNamespacesAnnotation, "b;c")(first) },
			"of Service/a/web does not list b",
		},
		{
			"the later mistypes its list",
			func(_, later *corev1.Service) { annotated(v1alpha1.ShareNamespacesAnnotation, "a;c")(later) },
			"is no name of a namespace",
		},
		{"the first takes a port of the later", func(first, _ *corev1.Service) { onPort(25)(first) }, "has port 25/TCP, too"},
		{"the later takes a port of the first", func(_, later *corev1.Service) { onPort(443)(later) }, "has port 443/TCP, too"},
		{"the first becomes Local", func(first, _ *corev1.Service) { becomesLocal(first) }, "has other pods"},
		{"the later becomes Local", func(_, later *corev1.Service) { becomesLocal(later) }, "has other pods"},
	} {
		for _, pool := range []string{address, "192.0.2.1-192.0.2.2"} {
			t.Run(tt.name+" "+pool, func(t *testing.T) {
				w := newWorld(addressPool("lan", pool))
				// The later one is the older Service: what counts is who had the address.
				later := w.add("mail", tenant("b", 25, "", "a"), func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
				first := w.add("web", tenant("a", 443, "k", "b"), asks(address))
				w.pass()
				later.Spec.Type = corev1.ServiceTypeLoadBalancer
				annotated(v1alpha1.ShareKeyAnnotation, "k")(later)
				if p := w.pass(); p.of(first) != address || p.of(later) != address {
					t.Fatalf("they do not share: %q, %q", p.of(first), p.of(later))
				}
				tt.edit(first, later)
				p := w.pass()
				if problem := p.Services[allocator.NameOf(later)].Problem; problem == nil || problem.Reason != "SharingConflict" ||
					!strings.Contains(problem.Message, tt.detail) {
					t.Errorf("the reason is %v, want %q", problem, tt.detail)
				}
				w.settles(t, address, first, later, pool == address, tt.detail)
			})
		}
	}
}

// settles makes passes, in which the first Service keeps the address, and the later one what it got instead.
func (w *world) settles(t *testing.T, address string, first, later *corev1.Service, none bool, detail string) {
	t.Helper()
	before := ""
	for i := range 4 {
		p := w.pass()
		if p.of(first) != address || p.of(later) == address || (p.of(later) == "") != none {
			t.Fatalf("the first has %q, the later %q", p.of(first), p.of(later))
		}
		problem := p.Services[allocator.NameOf(later)].Problem
		if none && (problem == nil || !strings.Contains(problem.Message, detail)) {
			t.Errorf("pass %d: without an address the reason is %v, want %q", i, problem, detail)
		}
		now := fmt.Sprint(p.of(later), problem, w.objects[address].Annotations)
		if before != "" && now != before {
			t.Errorf("pass %d: %s, before: %s", i, now, before)
		}
		before = now
	}
}

// Three share an address. The one in the middle withdraws from the first: it alone goes.
func TestAllocate_ConsentOfTheMiddle(t *testing.T) {
	w := newWorld(addressPool("lan", "192.0.2.0/24"))
	a, b, c := w.add("a", tenant("a", 1, "k", "b,c")), w.add("b", tenant("b", 2, "k", "a,c")), w.add("c", tenant("c", 3, "k", "a,b"))
	if p := w.pass(); p.of(a) == "" || p.of(a) != p.of(b) || p.of(b) != p.of(c) {
		t.Fatalf("got %q, %q, %q", p.of(a), p.of(b), p.of(c))
	}
	annotated(v1alpha1.ShareNamespacesAnnotation, "c")(b)
	if p := w.pass(); p.of(b) == p.of(a) || p.of(b) == "" || p.of(c) != p.of(a) {
		t.Errorf("got %q, %q, %q", p.of(a), p.of(b), p.of(c))
	}
}

// A lost claim is restored for the Services that had it, by age, and only for those that still consent.
func TestAllocate_ConsentAfterLostClaims(t *testing.T) {
	for _, consents := range []bool{true, false} {
		w := newWorld(addressPool("lan", "192.0.2.1-192.0.2.9"))
		a, b := w.add("web", tenant("a", 443, "k", "b")), w.add("mail", tenant("b", 25, "k", "a"))
		address := w.pass().of(a)
		clear(w.objects)
		if !consents {
			delete(a.Annotations, v1alpha1.ShareNamespacesAnnotation)
		}
		if p := w.pass(); p.of(a) != address || (p.of(b) == address) != consents {
			t.Errorf("consent %t: got %q and %q, before %q", consents, p.of(a), p.of(b), address)
		}
	}
}

// Where the first of the Services goes, the other has the address. The first may come back with the consent of both, and is the later
// one then.
func TestAllocate_ConsentThenDeleted(t *testing.T) {
	w := newWorld(addressPool("lan", "192.0.2.1-192.0.2.9"))
	a, b := w.add("web", tenant("a", 443, "k", "b")), w.add("mail", tenant("b", 25, "k", "a"))
	address := w.pass().of(a)
	delete(w.services, types.NamespacedName{Namespace: "a", Name: "web"})
	w.pass()
	stranger := w.add("web", tenant("a", 443, "k", ""), asks(address))
	if p := w.pass(); p.of(b) != address || p.of(stranger) != "" {
		t.Errorf("got %q and %q without consent", p.of(stranger), p.of(b))
	}
	a = w.add("web", tenant("a", 443, "k", "b"))
	if p := w.pass(); p.of(b) != address || p.of(a) != address {
		t.Errorf("got %q and %q, want %s", p.of(a), p.of(b), address)
	}
	delete(a.Annotations, v1alpha1.ShareNamespacesAnnotation)
	if p := w.pass(); p.of(b) != address || p.of(a) == address {
		t.Errorf("got %q and %q after the consent was withdrawn", p.of(a), p.of(b))
	}
}

// A malformed list is an error of its Service, which has an address of its own. It is none where addresses are those of Nodes.
func TestStatus_MalformedNamespaces(t *testing.T) {
	for _, level := range []string{"", "NodeIP"} {
		w := newWorld(addressPool("lan", "192.0.2.1"))
		w.setNodes("198.18.0.1")
		w.add("web", annotated(v1alpha1.ShareNamespacesAnnotation, "*"), annotated(v1alpha1.LevelAnnotation, level))
		w.told("192.0.2.1")
		w.told("192.0.2.1")
		s := w.services[types.NamespacedName{Namespace: "default", Name: "web"}]
		want, address := `SharingConflict annotation ccmadm.dev/share-namespaces: "*" would let every namespace use the address`, "192.0.2.1"
		if level != "" {
			want, address = "NodeIP", "198.18.0.1"
		}
		condition := allocator.Condition(s)
		if got := condition.Reason + " " + condition.Message; !strings.HasPrefix(got, want) || w.has("web") != address {
			t.Errorf("level %q: it has %q, and the condition says %s", level, w.has("web"), got)
		}
	}
}

// A tenant who has lost the address to its owner does not keep it in its status: not by taking the annotation away that tells of
// it, and not by asking for an address that it cannot have.
func TestStatus_LostToAnotherNamespace(t *testing.T) {
	w := newWorld(addressPool("lan", "192.0.2.1"))
	w.setNodes("198.18.0.1")
	a, b := w.add("web", tenant("a", 443, "k", "b")), w.add("mail", tenant("b", 25, "k", "a"))
	w.told("192.0.2.1")
	w.told("192.0.2.1")
	b = w.services[allocator.NameOf(b)]
	if got := address(b); got != "192.0.2.1" {
		t.Fatalf("they do not share: %q", got)
	}
	a = w.services[allocator.NameOf(a)]
	delete(a.Annotations, v1alpha1.ShareNamespacesAnnotation)
	delete(b.Annotations, v1alpha1.AllocatedAnnotation)
	asks("192.0.2.1")(b)
	w.told("192.0.2.1")
	if got := address(w.services[allocator.NameOf(b)]); got != "" {
		t.Errorf("it still has %s", got)
	}
	if got := address(w.services[allocator.NameOf(a)]); got != "192.0.2.1" {
		t.Errorf("the owner has %q", got)
	}
}
