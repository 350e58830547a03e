package balancer

import (
	"net/netip"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
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
		w := newWritten()
		p := &allocator.Plan{Claims: map[netip.Addr]*allocator.Claim{stale.Address: stale}}
		if err := b.writeClaim(t.Context(), p, stale, w); err != nil || !w.unclaimed[family{allocator.NameOf(old), false}] {
			t.Errorf("%s: write the claim: %v, unclaimed: %v", when, err, w.unclaimed)
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

// The manager's own claim, which its caches do not have yet, is not another's: its Service gets no other address. What is another
// Service's, or another program's, is.
func TestCluster_OwnClaimBeforeItsWatch(t *testing.T) {
	c := newCluster(t, addressPool("lan", "192.0.2.50-192.0.2.52"))
	c.end() // its caches know nothing more
	b := c.leader
	service := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "default", Name: name} }
	claim := func(address, name string) *allocator.Claim {
		owner := service(name)
		return &allocator.Claim{
			Address: netip.MustParseAddr(address), Pool: "lan", Level: v1alpha1.LevelL2, Parent: owner, Owners: []types.NamespacedName{owner},
		}
	}
	foreign := claim("192.0.2.52", "web").Render()
	foreign.Labels = nil
	for _, object := range []*networkingv1.IPAddress{claim("192.0.2.50", "web").Render(), claim("192.0.2.51", "other").Render(), foreign} {
		if _, err := c.client.NetworkingV1().IPAddresses().Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for address, taken := range map[string]bool{"192.0.2.50": false, "192.0.2.51": true, "192.0.2.52": true} {
		for len(b.dirty) > 0 {
			<-b.dirty
		}
		w := newWritten()
		own := claim(address, "web")
		p := &allocator.Plan{Claims: map[netip.Addr]*allocator.Claim{own.Address: own}}
		if err := b.writeClaim(t.Context(), p, own, w); err != nil || !w.unclaimed[family{service("web"), false}] {
			t.Errorf("%s: %v, unclaimed: %v", address, err, w.unclaimed)
		}
		if _, is := b.conflicts[own.Address]; is != taken {
			t.Errorf("%s counts as another's: %t, want %t", address, is, taken)
		}
		if asked, waits := len(b.dirty) > 0, len(w.seen) > 0; asked != taken || waits == taken {
			t.Errorf("%s: another pass is asked for: %t; the pass waits for the caches: %t", address, asked, waits)
		}
	}
}
