package balancer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/balancer/evaluation"
)

// Random Services come, change and go, pools change, claims are lost, and every pass ends anywhere. Nobody ever has an
// address of somebody else, and once passes are completed, everything is as it would be without any crash: another pass
// has nothing to do.
func TestAllocate_Crashes(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			w := newWorld(addressPool("a", "192.0.2.0/28"), addressPool("b", "198.51.100.0/29", "2001:db8::/120"))
			w.peers = seed%2 == 0 // an address at level L2 moves only after it was announced, and no agent announces here
			before := map[types.NamespacedName]string{}
			for range 60 {
				moved := w.stir(random)
				steps := w.steps(allocator.Allocate(w.snapshot()))
				for _, do := range steps[:random.IntN(len(steps)+1)] {
					do()
					w.check(t)
				}
				w.pass()
				w.pass()
				p := allocator.Allocate(w.snapshot())
				for _, c := range p.Claims {
					if c.Object == nil || !cmp.Equal(c.Render(), c.Object) {
						t.Errorf("seed %d: a third pass writes %s", seed, c.Address)
					}
				}
				w.check(t)
				for name, as := range p.Services {
					now := evaluation.Join(as.Addresses())
					if was := before[name]; was != "" && now == "" && !moved[name] {
						t.Errorf("seed %d: %s has lost %s: %v", seed, name, was, as.Problem)
					}
					if was := before[name]; !keptAll(was, now) && !moved[name] {
						t.Errorf("seed %d: %s has moved from %s to %s", seed, name, was, now)
					}
					before[name] = now
				}
				for name := range before {
					if p.Services[name] == nil {
						delete(before, name)
					}
				}
			}
		})
	}
}

// keptAll says whether all addresses are still there. Another family may have come.
func keptAll(was, now string) bool {
	for address := range strings.SplitSeq(was, ",") {
		if !slices.Contains(strings.Split(now, ","), address) && was != "" {
			return false
		}
	}
	return true
}

// stir changes something, and returns the Services that may have another address because of it.
func (w *world) stir(random *rand.Rand) map[types.NamespacedName]bool {
	moved := map[types.NamespacedName]bool{}
	w.now = w.now.Add(time.Duration(random.IntN(40)) * time.Second)
	which := random.IntN(12)
	name := types.NamespacedName{Namespace: []string{"default", "other"}[which%2], Name: fmt.Sprint("s", which)}
	s := w.services[name]
	address := fmt.Sprintf("192.0.2.%d", random.IntN(17))
	switch n := random.IntN(11); {
	case s == nil:
		w.add(name.Name, func(s *corev1.Service) { s.Namespace = name.Namespace })
		s = w.services[name]
		if n < 4 {
			annotated(v1alpha1.ShareKeyAnnotation, "k")(s)
			annotated(v1alpha1.ShareNamespacesAnnotation, []string{"default,other", "default", "other", "*"}[random.IntN(4)])(s)
			onPort(int32(random.IntN(4)))(s)
		}
		if n == 5 {
			families(corev1.IPFamilyPolicyPreferDualStack, corev1.IPv4Protocol, corev1.IPv6Protocol)(s)
		}
		if n == 6 {
			families(corev1.IPFamilyPolicyRequireDualStack, corev1.IPv6Protocol, corev1.IPv4Protocol)(s)
		}
		moved[name] = true
	case n < 4:
		delete(w.services, name)
	case n == 4:
		s.Annotations[v1alpha1.AddressesAnnotation] = address
		moved[name] = true
	case n == 5:
		delete(s.Annotations, v1alpha1.AddressesAnnotation)
	case n == 6:
		s.Annotations[v1alpha1.ReassignAnnotation] = "true"
		moved[name] = true
	case n == 7:
		pool := w.pools[random.IntN(2)]
		pool.Spec.Disabled = !pool.Spec.Disabled
	case n == 8:
		w.pools[0] = addressPool("a", []string{"192.0.2.0/28", "192.0.2.8/29", "192.0.2.0/30"}[random.IntN(3)])
	case n == 9:
		s.Annotations[v1alpha1.ShareKeyAnnotation] = "k"
		moved[name] = true
	case n == 10:
		w.offer(random, s, moved)
	}
	if random.IntN(8) == 0 {
		clear(w.objects)
	}
	for name, s := range w.services {
		moved[name] = moved[name] || s.Annotations[v1alpha1.MoveToAnnotation] != ""
		wanted := s.Annotations[v1alpha1.AddressesAnnotation]
		if s.Annotations[v1alpha1.ReassignAnnotation] != "" || !keptAll(wanted, s.Annotations[v1alpha1.AllocatedAnnotation]) {
			moved[name] = true // it is still waiting for an address to become free
		}
	}
	return moved
}

// offer lets another Service take over the first address of this one, and that one asks for it.
func (w *world) offer(random *rand.Rand, s *corev1.Service, moved map[types.NamespacedName]bool) {
	address, _, _ := strings.Cut(evaluation.Join(allocator.Earlier(s, true)), ",")
	which := random.IntN(12)
	name := types.NamespacedName{Namespace: []string{"default", "other"}[which%2], Name: fmt.Sprint("s", which)}
	other := w.services[name]
	if address == "" || other == nil || other == s {
		return
	}
	s.Annotations[v1alpha1.MoveToAnnotation] = address + "=" + name.String()
	other.Annotations[v1alpha1.AddressesAnnotation] = address
	moved[name], moved[allocator.NameOf(s)] = true, true
}

// check looks at the claims: who shares an address may, and no Service has two of a family after a completed pass.
func (w *world) check(t *testing.T) {
	t.Helper()
	for name, object := range w.objects {
		c, ok := allocator.ParseClaim(object)
		if !ok || !c.Live() {
			continue
		}
		for i, a := range c.Owners {
			for _, b := range c.Owners[:i] {
				if w.services[a] == nil || w.services[b] == nil {
					continue
				}
				if a == b || allocator.MayShare(w.services[a], w.services[b]) != nil && !w.edited(a, b) {
					t.Errorf("%s and %s have %s", a, b, name)
				}
			}
		}
	}
}

// edited says that Services may have come to disagree after they had begun to share.
func (w *world) edited(a, b types.NamespacedName) bool {
	return slices.ContainsFunc([]types.NamespacedName{a, b}, func(n types.NamespacedName) bool {
		return w.services[n].Annotations[v1alpha1.ShareKeyAnnotation] == ""
	})
}
