package balancer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

const movedAddress, movedIPv6 = "192.0.2.50", "2001:db8::50"

// gives lets another Service take over addresses.
func gives(to string, addresses ...string) func(*corev1.Service) {
	var list []string
	for _, address := range addresses {
		list = append(list, address+"="+to)
	}
	return annotated(v1alpha1.MoveToAnnotation, strings.Join(list, ","))
}

func in(namespace string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Namespace = namespace }
}

func requireBoth(s *corev1.Service) {
	families(corev1.IPFamilyPolicyRequireDualStack, corev1.IPv4Protocol, corev1.IPv6Protocol)(s)
}

// side is two Services that run side by side, each with an address of its own, that of the old one announced.
func side(change ...func(*world)) (*world, *corev1.Service, *corev1.Service) {
	w := newWorld(addressPool("lan", "192.0.2.50-192.0.2.59"))
	w.add("old", in("ingress"), asks(movedAddress))
	w.add("new", in("gateway"))
	for _, c := range change {
		c(w)
	}
	w.settle()
	w.settle()
	return w, w.services[named("ingress/old")], w.services[named("gateway/new")]
}

func named(text string) types.NamespacedName {
	namespace, name, _ := strings.Cut(text, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// settle is a pass with agents that announce what is claimed.
func (w *world) settle() {
	var all []string
	for name := range w.objects {
		all = append(all, name)
	}
	w.told(all...)
}

func (w *world) statusOf(name string) string {
	return address(w.services[named(name)])
}

// owners of the claim of movedAddress, as the object says; "released": it has no owner.
func (w *world) owners() string {
	c, ok := allocator.ParseClaim(w.objects[movedAddress])
	if !ok || !c.Live() {
		return "released"
	}
	return fmt.Sprint(c.Owners)
}

// consent sets what both sides of a move say.
func consent(old, next *corev1.Service) {
	gives("gateway/new", movedAddress)(old)
	asks(movedAddress)(next)
}

// The address goes to the other Service in one write of its claim, the former owner gets another one, and back it goes in the same way.
func TestAllocate_Move(t *testing.T) {
	w, old, next := side()
	former := w.statusOf("gateway/new")
	consent(old, next)
	w.settle()
	if got := w.owners(); got != "[gateway/new]" || w.statusOf("gateway/new") != movedAddress {
		t.Fatalf("owners %s, and the new one has %q", got, w.statusOf("gateway/new"))
	}
	if got := w.statusOf("ingress/old"); got == movedAddress {
		t.Errorf("the old one has %q still", got)
	}
	w.settle()
	if got := w.statusOf("ingress/old"); got == movedAddress || got == "" || got == former {
		t.Errorf("the old one has %q, and the new one had %s", got, former)
	}
	w.isAtRest(t)

	old, next = w.services[named("ingress/old")], w.services[named("gateway/new")]
	delete(old.Annotations, v1alpha1.MoveToAnnotation)
	gives("ingress/old", movedAddress)(next)
	w.settle()
	if got := w.owners(); got != "[ingress/old]" || w.statusOf("ingress/old") != movedAddress {
		t.Errorf("back: owners %s, and the old one has %q", got, w.statusOf("ingress/old"))
	}
	w.settle()
	w.isAtRest(t)
}

// isAtRest says that another pass writes no claim.
func (w *world) isAtRest(t *testing.T) {
	t.Helper()
	p := allocator.Allocate(w.snapshot())
	for _, c := range p.Claims {
		if c.Object == nil || !cmp.Equal(c.Render(), c.Object) {
			t.Errorf("another pass writes %s: %v", c.Address, c.Owners)
		}
	}
}

// What does not move an address. Each time the old Service keeps it.
func TestAllocate_MoveRefused(t *testing.T) {
	for _, tt := range []struct {
		name           string
		prepare        func(*world)
		change         func(old, next *corev1.Service)
		reason, detail string
	}{
		{"the owner alone", nil, func(old, _ *corev1.Service) { gives("gateway/new", movedAddress)(old) }, "", ""},
		{
			"a tenant alone", nil,
			func(_, next *corev1.Service) { asks(movedAddress)(next) },
			"AddressInUse", "belongs to Service/ingress/old",
		},
		{
			"a tenant who says that it gives the address", nil,
			func(_, next *corev1.Service) { asks(movedAddress)(next); gives("gateway/new", movedAddress)(next) },
			"", "", // it does not insist on what it gives away
		},
		{
			"a tenant who says that it had the address", nil,
			func(_, next *corev1.Service) {
				asks(movedAddress)(next)
				annotated(v1alpha1.AllocatedAnnotation, movedAddress)(next)
				next.Status.LoadBalancer.Ingress = nil
			},
			"AddressInUse", "belongs to Service/ingress/old",
		},
		{
			"consent to another Service of the namespace", nil,
			func(old, next *corev1.Service) { gives("gateway/other", movedAddress)(old); asks(movedAddress)(next) },
			"AddressInUse", "belongs to Service/ingress/old",
		},
		{
			"consent about another address", nil,
			func(old, next *corev1.Service) { gives("gateway/new", "192.0.2.59")(old); asks(movedAddress)(next) },
			"AddressInUse", "belongs to Service/ingress/old",
		},
		{
			"a list that cannot be read", nil,
			func(old, next *corev1.Service) {
				annotated(v1alpha1.MoveToAnnotation, movedAddress+"=gateway/new,all")(old)
				asks(movedAddress)(next)
			},
			"AddressInUse", "belongs to Service/ingress/old",
		},
		{
			"both give it to each other", nil,
			func(old, next *corev1.Service) { consent(old, next); gives("ingress/old", movedAddress)(next) },
			"", "",
		},
		{
			"a pool that does not serve the namespace",
			func(w *world) { w.pools[0].Spec.Serve.Namespaces = []string{"ingress"} },
			consent, "NoPoolServes", "does not serve the Service",
		},
		{
			"both families or none, and one cannot be had",
			func(w *world) { requireBoth(w.services[named("gateway/new")]) },
			consent, "NoSuchFamily", "stays with Service/ingress/old until this Service can have an IPv6 address, too",
		},
		{
			"addresses of Nodes",
			func(w *world) { w.setNodes("198.18.0.1") },
			func(old, next *corev1.Service) {
				consent(old, next)
				annotated(v1alpha1.LevelAnnotation, "NodeIP")(next)
			}, "", "",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			prepare := tt.prepare
			if prepare == nil {
				prepare = func(*world) {}
			}
			w, old, next := side(prepare)
			tt.change(old, next)
			for range 2 {
				p := w.pass()
				problem := ""
				if found := p.Services[named("gateway/new")].Problem; found != nil {
					problem = found.Message
				}
				if got := p.reason(next); got != tt.reason || !strings.Contains(problem, tt.detail) {
					t.Errorf("got %s %q, want %s %q", got, problem, tt.reason, tt.detail)
				}
				if w.owners() != "[ingress/old]" || p.of(old) != movedAddress {
					t.Errorf("owners %s, and the old one gets %q", w.owners(), p.of(old))
				}
			}
		})
	}
}

// An address that was not announced yet could not be published at once: it moves when it was.
func TestAllocate_MoveWaits(t *testing.T) {
	w := newWorld(addressPool("lan", "192.0.2.50-192.0.2.59"))
	w.add("old", in("ingress"), asks(movedAddress), gives("gateway/new", movedAddress))
	w.add("new", in("gateway"), asks(movedAddress))
	w.told()
	w.told()
	if got := w.owners(); got != "[ingress/old]" {
		t.Errorf("before: owners %s", got)
	}
	w.settle()
	w.settle()
	if got := w.owners(); got != "[gateway/new]" || w.statusOf("gateway/new") != movedAddress {
		t.Errorf("after: owners %s, and the new one has %q", got, w.statusOf("gateway/new"))
	}
}

// A Service without an address takes over the only one there is, in both families at once.
func TestAllocate_MoveBothFamilies(t *testing.T) {
	w := newWorld(addressPool("lan", movedAddress, movedIPv6))
	w.add("old", in("ingress"), requireBoth)
	w.add("new", in("gateway"), requireBoth)
	w.settle()
	w.settle()
	old, next := w.services[named("ingress/old")], w.services[named("gateway/new")]
	both := movedAddress + "," + movedIPv6
	if w.statusOf("ingress/old") != both || w.statusOf("gateway/new") != "" {
		t.Fatalf("before: %q and %q", w.statusOf("ingress/old"), w.statusOf("gateway/new"))
	}
	gives("gateway/new", movedAddress, movedIPv6)(old)
	asks(both)(next)
	w.settle()
	if got := w.statusOf("gateway/new"); got != both || w.statusOf("ingress/old") != "" {
		t.Errorf("the new one has %q, and the old one %q", got, w.statusOf("ingress/old"))
	}
	w.settle()
	w.isAtRest(t)
}

// A third Service that shares the address stays on it, or the move waits, if the new one may not share it with the third.
func TestAllocate_MoveWithThird(t *testing.T) {
	for _, tt := range []struct{ name, lists, key, want, reason string }{
		{"that consents", "gateway,ingress", "k", "[gateway/new mail/smtp]", ""},
		{"that does not consent", "ingress", "k", "[ingress/old mail/smtp]", "SharingConflict"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(addressPool("lan", "192.0.2.50-192.0.2.59"))
			w.add("old", tenant("ingress", 443, "k", "mail"), asks(movedAddress))
			w.add("smtp", tenant("mail", 25, "k", tt.lists), asks(movedAddress))
			w.add("new", tenant("gateway", 443, tt.key, "mail"))
			w.settle()
			w.settle()
			old, next := w.services[named("ingress/old")], w.services[named("gateway/new")]
			consent(old, next)
			p := w.pass()
			if got := w.owners(); got != tt.want || p.reason(next) != tt.reason {
				t.Errorf("owners %s, reason %q, want %s and %q", got, p.reason(next), tt.want, tt.reason)
			}
			if third := w.services[named("mail/smtp")]; p.of(third) != movedAddress {
				t.Errorf("the third one has %q", p.of(third))
			}
		})
	}
}

// Wherever a pass ends, the address has one owner, who announces it, and the passes after it end as if there had been no crash.
func TestAllocate_MoveCrashes(t *testing.T) {
	prepare := func() *world {
		w, old, next := side()
		consent(old, next)
		return w
	}
	whole := prepare()
	whole.settle()
	whole.settle()
	count := len(prepare().steps(allocator.Allocate(prepare().snapshot())))
	for range 20 { // maps have another order each time
		for done := range count + 1 {
			w := prepare()
			steps := w.steps(allocator.Allocate(w.snapshot()))
			for _, do := range steps[:done] {
				do()
				if got := w.owners(); got != "[ingress/old]" && got != "[gateway/new]" {
					t.Errorf("after %d of %d writes the address has %s", done, count, got)
				}
			}
			w.settle()
			w.settle()
			got, want := w.statusOf("gateway/new")+" "+w.owners(), whole.statusOf("gateway/new")+" "+whole.owners()
			if got != want || w.statusOf("ingress/old") == "" || w.statusOf("ingress/old") == movedAddress {
				t.Errorf("a crash after %d of %d writes: %s, want %s; the old one has %q", done, count, got, want, w.statusOf("ingress/old"))
			}
			w.isAtRest(t)
		}
	}
}

// Claims that are lost after a move do not undo it, whatever both Services ask for still.
func TestAllocate_MoveSurvivesLostClaims(t *testing.T) {
	w, old, next := side()
	consent(old, next)
	w.settle()
	w.settle()
	kept := w.statusOf("ingress/old")
	clear(w.objects)
	w.settle()
	if got := w.statusOf("gateway/new"); got != movedAddress || w.statusOf("ingress/old") != kept {
		t.Errorf("the new one has %q, and the old one %q, had %s", got, w.statusOf("ingress/old"), kept)
	}
	// Into another cluster, without a status: annotations alone.
	for _, s := range w.services {
		s.Status = corev1.ServiceStatus{}
	}
	clear(w.objects)
	w.settle()
	w.settle()
	if got := w.statusOf("gateway/new"); got != movedAddress || w.statusOf("ingress/old") != kept {
		t.Errorf("restored: the new one has %q, and the old one %q, had %s", got, w.statusOf("ingress/old"), kept)
	}
}
