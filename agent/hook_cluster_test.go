package agent

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
	"github.com/ccmadm/ccmadm/provider/announce/hook"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// A hook is called with what the API server has: the pool's URL, the Secret's token, the claim and the Node.
func TestCluster_Hook(t *testing.T) {
	applyDefinitions(t)
	client, address := kubernetes.NewForConfigOrDie(plane.Config), "203.0.113.77"
	calls := make(chan hook.Body, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body hook.Body
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.Header.Get("Authorization") != "Bearer t0ken" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		calls <- body
	}))
	t.Cleanup(server.Close)
	ours, err := objects.New(plane.Config)
	must(t, err)
	pool := &v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: "hooked"}, Spec: v1alpha1.AddressPoolSpec{
		Ranges: []string{address}, Level: v1alpha1.LevelL2, Hook: &v1alpha1.PoolHook{URL: server.URL, TokenKey: "cloud"},
	}}
	_, err = ours.AddressPools.Create(t.Context(), pool, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { // other tests take the claims and pools that there are for their own
		ctx := context.WithoutCancel(t.Context())
		must(t, client.NetworkingV1().IPAddresses().Delete(ctx, address, metav1.DeleteOptions{}))
		must(t, ours.AddressPools.Delete(ctx, "hooked", metav1.DeleteOptions{}))
	})
	_, err = client.CoreV1().Secrets(v1alpha1.Namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.HookSecretName}, Data: map[string][]byte{"cloud": []byte("t0ken\n")},
	}, metav1.CreateOptions{})
	must(t, err)
	localNode(t, client, "hooked", "192.0.2.77")
	_, err = client.NetworkingV1().IPAddresses().Create(t.Context(), &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{
			Name: address, Labels: map[string]string{networkingv1.LabelManagedBy: v1alpha1.ClaimManager},
			Annotations: map[string]string{v1alpha1.ClaimLevelAnnotation: string(v1alpha1.LevelL2), v1alpha1.ClaimPoolAnnotation: "hooked"},
		},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "shop", Name: "web"}},
	}, metav1.CreateOptions{})
	must(t, err)

	caller := callUntilEnd(t, "hooked")
	began := time.Now()
	caller.Take(netip.MustParseAddr(address))
	select {
	case body := <-calls:
		if body.Generation < began.Add(-time.Second).UnixMicro() {
			t.Errorf("its generation is %d", body.Generation)
		}
		body.Generation = 0
		want := hook.Body{Address: address, Node: "hooked", InternalIPs: []string{"192.0.2.77"}, Pool: "hooked", Services: []string{"shop/web"}}
		if diff := cmp.Diff(want, body); diff != "" {
			t.Error(diff)
		}
	case <-time.After(time.Minute):
		t.Fatal("it was not called")
	}
	time.Sleep(100 * time.Millisecond) // its answer
	if n := caller.Failing(); n != 0 || len(calls) > 0 {
		t.Errorf("%d addresses fail, %d more calls", n, len(calls))
	}
}

// callUntilEnd runs a Caller with caches of its own until the test ends.
func callUntilEnd(t *testing.T, node string) *hook.Caller {
	t.Helper()
	c, err := newCaches(plane.Config)
	must(t, err)
	caller := hook.New(hook.Options{
		Tokens: c.tokens.get, Owns: func(netip.Addr) bool { return true }, Changed: func() {}, Failed: func(announce.Claim, string) {},
		Observe: func(string, time.Duration) {}, Log: klog.Background(),
	})
	announceFrom(t, c, node, caller)
	return caller
}
