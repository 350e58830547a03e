package balancer

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/balancer/evaluation"
)

// moment is what there was in the status of Services after an event of a watch, as kube-proxy gets to know it.
type moment struct {
	at     time.Time
	having []string // Services with the address
}

// watcher sees who has an address.
type watcher struct {
	mu      sync.Mutex
	moments []moment
	claims  []string // owners, whenever the claim was written
}

func (c *cluster) watch(watched string) *watcher {
	c.Helper()
	w := &watcher{}
	ctx, stop := context.WithCancel(c.Context())
	services, err := c.client.CoreV1().Services("").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		c.Fatal(err)
	}
	claims, err := c.client.NetworkingV1().IPAddresses().Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + watched})
	if err != nil {
		c.Fatal(err)
	}
	var running sync.WaitGroup
	c.Cleanup(func() { stop(); running.Wait() })
	has := map[string]bool{}
	running.Go(func() { w.follow(services, func(object any) { w.service(object, has, watched) }) })
	running.Go(func() { w.follow(claims, w.claim) })
	return w
}

func (w *watcher) follow(events watch.Interface, note func(any)) {
	for e := range events.ResultChan() {
		w.mu.Lock()
		note(e.Object)
		w.mu.Unlock()
	}
}

func (w *watcher) service(object any, has map[string]bool, watched string) {
	s, is := object.(*corev1.Service)
	if !is {
		return
	}
	name := s.Namespace + "/" + s.Name
	now := address(s) == watched
	if has[name] == now {
		return
	}
	has[name] = now
	m := moment{at: time.Now()}
	for name, there := range has {
		if there {
			m.having = append(m.having, name)
		}
	}
	slices.Sort(m.having)
	w.moments = append(w.moments, m)
}

func (w *watcher) claim(object any) {
	if o, is := object.(*networkingv1.IPAddress); is {
		c, _ := allocator.ParseClaim(o)
		owners := "released"
		if c.Live() {
			owners = fmt.Sprint(c.Owners)
		}
		w.claims = append(w.claims, owners)
	}
}

// gap is how long no Service had the address since it was first seen, and both how long two Services had it, each the longest time.
func (w *watcher) gap() (gap, both time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := 1; i < len(w.moments); i++ {
		lasted := w.moments[i].at.Sub(w.moments[i-1].at)
		switch len(w.moments[i-1].having) {
		case 0:
			gap = max(gap, lasted)
		case 1:
		default:
			both = max(both, lasted)
		}
	}
	return gap, both
}

// moving is the two Services of a move.
func (c *cluster) moving() {
	c.Helper()
	c.createIn("move-a", "old", asks(movedAddress))
	c.eventually("move-a", "old", reasonIs(allocator.AnnouncedReason))
	c.createIn("move-b", "new")
	c.eventually("move-b", "new", reasonIs(allocator.AnnouncedReason))
}

// say sets annotations of a Service; empty values remove them.
func (c *cluster) say(name string, annotations map[string]string) {
	c.Helper()
	text := ""
	for key, value := range annotations {
		quoted := fmt.Sprintf("%q", value)
		if value == "" {
			quoted = "null"
		}
		if text != "" {
			text += ","
		}
		text += fmt.Sprintf("%q:%s", key, quoted)
	}
	n := named(name)
	patch := []byte(`{"metadata":{"annotations":{` + text + `}}}`)
	if _, err := c.client.CoreV1().Services(n.Namespace).Patch(c.Context(), n.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		c.Fatal(err)
	}
}

// move writes what `ccmadm lb move` does.
func (c *cluster) move(from, to string) {
	c.Helper()
	c.say(from, map[string]string{v1alpha1.MoveToAnnotation: movedAddress + "=" + to})
	c.say(to, map[string]string{v1alpha1.MoveToAnnotation: "", v1alpha1.AddressesAnnotation: movedAddress})
}

func (c *cluster) moved(to string) {
	c.Helper()
	n := named(to)
	c.eventually(n.Namespace, n.Name, hasAddress(movedAddress))
}

// An address goes to and fro between two tenants' Services. With kube-proxy it is always in the status of one of them, otherwise
// never in that of both; the claim always has an owner, so that agents announce it all the time.
func TestCluster_Move(t *testing.T) {
	for _, proxy := range []bool{true, false} {
		t.Run(fmt.Sprintf("kube-proxy %t", proxy), func(t *testing.T) {
			c := newCluster(t, addressPool("lan", "192.0.2.50-192.0.2.59"))
			if proxy {
				c.proxied()
			}
			c.moving()
			seen := c.watch(movedAddress)
			services := []string{"move-a/old", "move-b/new"}
			var took []time.Duration
			for i := range 20 {
				from, to := services[i%2], services[(i+1)%2]
				began := time.Now()
				c.move(from, to)
				c.moved(to)
				took = append(took, time.Since(began))
				n := named(from)
				c.eventually(n.Namespace, n.Name, func(s *corev1.Service) bool { return address(s) != movedAddress && address(s) != "" })
			}
			slices.Sort(took)
			gap, both := seen.gap()
			t.Logf("20 moves: half of them took %s, the longest %s; without a Service at most %s, with two at most %s",
				took[10].Round(time.Millisecond), took[19].Round(time.Millisecond), gap, both)
			if proxy && gap > 0 || !proxy && both > 0 || gap > tick/2 || both > tick/2 {
				t.Errorf("without a Service for %s, with two for %s", gap, both)
			}
			seen.announced(t)
		})
	}
}

func (w *watcher) announced(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.claims) == 0 || slices.Contains(w.claims, "released") {
		t.Errorf("the claim was of %q", w.claims)
	}
}

// proxied is kubeadm's kube-proxy.
func (c *cluster) proxied() {
	c.Helper()
	maps := c.client.CoreV1().ConfigMaps(v1alpha1.Namespace)
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: evaluation.ProxyName}, Data: map[string]string{evaluation.ProxyKey: "mode: nftables\n"},
	}
	if _, err := maps.Create(c.Context(), cm, metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() {
		_ = maps.Delete(context.WithoutCancel(c.Context()), evaluation.ProxyName, metav1.DeleteOptions{})
	})
	for !c.leader.caches.proxyMode().There {
		time.Sleep(5 * time.Millisecond)
	}
}

// The leader ends at some moment of each move, and the next one goes on.
func TestCluster_MoveAcrossLeaders(t *testing.T) {
	c := newCluster(t, addressPool("lan", "192.0.2.50-192.0.2.59"))
	c.proxied()
	c.moving()
	seen := c.watch(movedAddress)
	services := []string{"move-a/old", "move-b/new"}
	for i := range 12 {
		from, to := services[i%2], services[(i+1)%2]
		c.move(from, to)
		time.Sleep(time.Duration(i) * 3 * time.Millisecond)
		c.lead()
		c.moved(to)
		n := named(from)
		c.eventually(n.Namespace, n.Name, func(s *corev1.Service) bool { return address(s) != movedAddress })
	}
	gap, both := seen.gap()
	t.Logf("without a Service at most %s, with two at most %s", gap, both)
	if gap > 0 {
		t.Errorf("without a Service for %s", gap)
	}
	seen.announced(t)
}

// A tenant who may edit the Services of its own namespace gets nothing, whatever it writes there.
func TestCluster_MoveWithoutConsent(t *testing.T) {
	c := newCluster(t, addressPool("lan", "192.0.2.50-192.0.2.59"))
	c.moving()
	c.say("move-b/new", map[string]string{
		v1alpha1.AddressesAnnotation: movedAddress, v1alpha1.AllocatedAnnotation: movedAddress,
	})
	s := c.eventually("move-b", "new", reasonIs("AddressInUse"))
	if got := c.claimed(movedAddress).Owners; len(got) != 1 || got[0] != named("move-a/old") || address(s) == movedAddress {
		t.Errorf("owners %v, and the tenant has %q", got, address(s))
	}
	c.say("move-a/old", map[string]string{v1alpha1.MoveToAnnotation: movedAddress + "=move-b/new"})
	c.moved("move-b/new")
}
