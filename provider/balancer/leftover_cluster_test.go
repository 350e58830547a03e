package balancer

import (
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/balancer/evaluation"
)

// A tenant removes upstream's finalizer from a Service, adds another one and deletes the Service. kube-proxy serves what is in
// its status: the address goes from there before another Service has it.
func TestCluster_FinalizerOfATenant(t *testing.T) {
	const only = "198.18.0.10"
	c := newCluster(t, addressPool("lan", only))
	c.create("tenant")
	c.within(10*time.Second, "tenant", hasAddress(only))
	c.patch("tenant", `{"metadata":{"finalizers":["example.com/hold"]}}`)
	if err := c.client.CoreV1().Services("default").Delete(t.Context(), "tenant", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.create("honest")
	c.within(10*time.Second, "honest", reasonIs("PoolExhausted"))
	c.ahead.Store(int64(2 * time.Minute)) // reuseAfter is over
	c.patch("tenant", `{"metadata":{"labels":{"a":"pass"}}}`)
	c.within(15*time.Second, "honest", func(honest *corev1.Service) bool {
		tenant := c.within(time.Second, "tenant", func(*corev1.Service) bool { return true })
		if address(tenant) != "" && address(honest) != "" {
			t.Fatalf("two Services have %s", address(honest))
		}
		return address(honest) == only
	})
	c.within(time.Second, "tenant", func(s *corev1.Service) bool { return address(s) == "" && allocator.Condition(s) == nil })
}

// While the status of a Service that is no longer ours has an address, its claim stays.
func TestLingering(t *testing.T) {
	w := newWorld(addressPool("lan", "198.18.0.10"))
	s := w.add("tenant")
	w.pass()
	delete(w.services, allocator.NameOf(s))
	w.pass()
	w.now = w.now.Add(time.Hour)
	snapshot := w.snapshot()
	snapshot.Lingering = map[netip.Addr]bool{}
	s.DeletionTimestamp = new(metav1.Now())
	snapshot.Note(s)
	if p := allocator.Allocate(snapshot); len(p.Drop) != 0 {
		t.Errorf("the claim of %s is dropped, which kube-proxy serves for a Service that is being deleted", evaluation.Join(allocator.Earlier(s, true)))
	}
	if p := w.pass(); len(p.Drop) != 1 {
		t.Error("the claim of a Service that is gone is never dropped")
	}
}
