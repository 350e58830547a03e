package balancer

import (
	"net/netip"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/balancer/evaluation"
)

// A write that the API server refuses, since the caches lag behind, asks for no other pass: what the caches get to know
// does. A watch that hangs would make one pass after another otherwise.
func TestCluster_LaggingCaches(t *testing.T) {
	c := newCluster(t, addressPool("lan", "192.0.2.50"))
	c.create("web")
	old := c.within(5*time.Second, "web", hasAddress("192.0.2.50"))
	stale := c.claimed("192.0.2.50")
	c.end() // its caches know nothing more
	c.patch("web", `{"metadata":{"labels":{"by":"hand"}}}`)
	patch := []byte(`{"metadata":{"labels":{"by":"hand"}}}`)
	claims := c.client.NetworkingV1().IPAddresses()
	if _, err := claims.Patch(t.Context(), "192.0.2.50", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	b := c.leader
	for len(b.dirty) > 0 {
		<-b.dirty
	}
	stale.Pool = "other"
	after := old.DeepCopy()
	after.Annotations["example.com/any"] = "thing"
	write := func(when string) {
		t.Helper()
		w := &written{failed: map[types.NamespacedName]bool{}, withdrawn: map[types.NamespacedName]bool{}}
		p := &allocator.Plan{Claims: map[netip.Addr]*allocator.Claim{stale.Address: stale}}
		if err := b.writeClaim(t.Context(), p, stale, w); err != nil || !w.failed[allocator.NameOf(old)] {
			t.Errorf("%s: write the claim: %v, failed: %v", when, err, w.failed)
		}
		if err := b.writeService(t.Context(), &evaluation.Status{Service: old, After: after}, w); err != nil || len(w.seen) > 0 {
			t.Errorf("%s: write the Service: %v, and wait for it", when, err)
		}
		if len(b.dirty) > 0 {
			t.Errorf("%s: another pass is asked for", when)
		}
	}
	write("changed")
	if err := claims.Delete(t.Context(), "192.0.2.50", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.client.CoreV1().Services("default").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	write("deleted")
}
