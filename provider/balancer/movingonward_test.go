package balancer

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

const onwardAddress, thirdAddress = "192.0.2.51", "192.0.2.52"

// endsWith says which address each Service has, and that no claim waits in quarantine.
func (w *world) endsWith(t *testing.T, want map[string]string) {
	t.Helper()
	for name, address := range want {
		if got := w.statusOf(name); got != address {
			t.Errorf("Service/%s has %q, want %q", name, got, address)
		}
	}
	w.isAtRest(t)
}

// The former owner asks for its next address in the same change, as from Git. Whichever Service is older, its address goes to the new one
// and not into quarantine, and no agent has to announce it again first.
func TestAllocate_Move_TheOwnerGoesOn(t *testing.T) {
	for _, names := range [][]string{{"ingress/old", "gateway/new"}, {"gateway/new", "ingress/old"}} {
		t.Run(names[0]+" is older", func(t *testing.T) {
			w := newWorld(addressPool("lan", "192.0.2.50-192.0.2.59"))
			for _, name := range names {
				n := named(name)
				w.add(n.Name, in(n.Namespace))
			}
			asks(movedAddress)(w.services[named("ingress/old")])
			w.settle()
			w.settle()
			old, next := w.services[named("ingress/old")], w.services[named("gateway/new")]
			gives("gateway/new", movedAddress)(old)
			asks(onwardAddress)(old)
			asks(movedAddress)(next)
			w.settle()
			if got := w.statusOf("gateway/new"); got != movedAddress {
				t.Errorf("after one pass the new one has %q", got)
			}
			w.settle()
			w.endsWith(t, map[string]string{"gateway/new": movedAddress, "ingress/old": onwardAddress})
		})
	}
}

// The next Service cannot be published, as it wants both families: the address that the owner has left goes into quarantine,
// and no Service that does not publish it owns it.
func TestAllocate_Move_TheOwnerGoesOnForNothing(t *testing.T) {
	for _, names := range [][]string{{"ingress/old", "gateway/new"}, {"gateway/new", "ingress/old"}} {
		t.Run(names[0]+" is older", func(t *testing.T) {
			w := newWorld(addressPool("lan", "192.0.2.50-192.0.2.59"))
			for _, name := range names {
				n := named(name)
				w.add(n.Name, in(n.Namespace))
			}
			asks(movedAddress)(w.services[named("ingress/old")])
			w.settle()
			w.settle()
			old, next := w.services[named("ingress/old")], w.services[named("gateway/new")]
			gives("gateway/new", movedAddress)(old)
			asks(onwardAddress)(old)
			requireBoth(next)
			asks(movedAddress)(next)
			for range 3 {
				w.settle()
			}
			if got := w.statusOf("ingress/old"); got != onwardAddress {
				t.Errorf("the owner has %q", got)
			}
			if got := w.owners(); got != "released" {
				t.Errorf("%s is announced for %s, which does not publish it", movedAddress, got)
			}
		})
	}
}

// Two Services that give each other what they have, and three that pass theirs on, end with what they ask for.
func TestAllocate_Move_InACircle(t *testing.T) {
	w := newWorld(addressPool("lan", "192.0.2.50-192.0.2.59"))
	for name, address := range map[string]string{"a": movedAddress, "b": onwardAddress, "c": thirdAddress} {
		w.add(name, in("x"), asks(address))
	}
	w.settle()
	w.settle()
	a, b, c := w.services[named("x/a")], w.services[named("x/b")], w.services[named("x/c")]
	pass := func(from, to *corev1.Service, address string) {
		gives("x/"+to.Name, address)(from)
		asks(address)(to)
	}
	pass(a, b, movedAddress)
	pass(b, a, onwardAddress)
	w.settle()
	w.settle()
	w.endsWith(t, map[string]string{"x/a": onwardAddress, "x/b": movedAddress, "x/c": thirdAddress})
	for _, s := range []*corev1.Service{a, b, c} {
		delete(w.services[named("x/"+s.Name)].Annotations, v1alpha1.MoveToAnnotation)
	}
	a, b, c = w.services[named("x/a")], w.services[named("x/b")], w.services[named("x/c")]
	pass(a, b, onwardAddress)
	pass(b, c, movedAddress)
	pass(c, a, thirdAddress)
	w.settle()
	w.settle()
	w.endsWith(t, map[string]string{"x/a": thirdAddress, "x/b": onwardAddress, "x/c": movedAddress})
}

// A released address that its last owner lets another Service have waits for no quarantine.
func TestAllocate_Move_AfterTheOwnerLeft(t *testing.T) {
	w, old, _ := side()
	asks(onwardAddress)(old)
	w.settle()
	w.settle()
	if got := w.owners(); got != "released" {
		t.Fatalf("owners %s", got)
	}
	old, next := w.services[named("ingress/old")], w.services[named("gateway/new")]
	consent(old, next)
	w.settle()
	w.settle()
	w.endsWith(t, map[string]string{"gateway/new": movedAddress, "ingress/old": onwardAddress})
}

// Both families or none, and one of them was never announced: neither moves, and the old Service keeps both.
func TestAllocate_Move_OneFamilyNeverAnnounced(t *testing.T) {
	w := newWorld(addressPool("lan", movedAddress, movedIPv6))
	w.add("old", in("ingress"), requireBoth)
	w.add("new", in("gateway"), requireBoth)
	w.told(movedAddress)
	w.told(movedAddress)
	old, next := w.services[named("ingress/old")], w.services[named("gateway/new")]
	gives("gateway/new", movedAddress, movedIPv6)(old)
	asks(movedAddress + "," + movedIPv6)(next)
	for range 3 {
		p := w.pass()
		if got := p.of(old); got != movedAddress+","+movedIPv6 || w.owners() != "[ingress/old]" {
			t.Errorf("the old one has %q, owners %s", got, w.owners())
		}
		if got := p.reason(next); got != "NoSuchFamily" && got != "AddressInUse" {
			t.Errorf("reason %q", got)
		}
	}
	w.isAtRest(t)
}

// One that gave its address away and has the same share key does not come back to it.
func TestAllocate_Move_ShareKey(t *testing.T) {
	w := newWorld(addressPool("lan", movedAddress))
	w.add("old", tenant("x", 80, "k", ""))
	w.add("new", tenant("x", 443, "k", ""))
	w.settle()
	w.settle()
	delete(w.services[named("x/new")].Annotations, v1alpha1.ShareKeyAnnotation)
	w.settle()
	w.settle()
	old, next := w.services[named("x/old")], w.services[named("x/new")]
	gives("x/new", movedAddress)(old)
	asks(movedAddress)(next)
	annotated(v1alpha1.ShareKeyAnnotation, "k")(next)
	w.settle()
	w.settle()
	if got := w.owners(); got != "[x/new]" {
		t.Errorf("owners %s", got)
	}
}
