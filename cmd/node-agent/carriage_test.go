package main

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
)

// An address is early on a Node as long as its kube-proxy says that it has no endpoints, and no longer.
func TestCarriage(t *testing.T) {
	var status, asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(int(status.Load()))
	}))
	leaks := goleak.IgnoreCurrent()
	t.Cleanup(func() { server.Close(); goleak.VerifyNone(t, leaks) })
	at := netip.MustParseAddrPort(server.Listener.Addr().String())
	silent := netip.MustParseAddrPort(freePort(t))
	for _, tt := range []struct {
		name   string
		status int
		port   uint16
		claim  announce.Claim
		early  bool // after the answer; before, it is for all that are asked for
		asks   bool
	}{
		{name: "it has none", status: 503, port: at.Port(), claim: moving("a"), early: true, asks: true},
		{name: "it has some", status: 200, port: at.Port(), claim: moving("a"), asks: true},
		{name: "it knows nothing of the Service", status: 404, port: at.Port(), claim: moving("a"), asks: true},
		{name: "nobody answers", port: silent.Port(), claim: moving("a"), asks: true},
		{name: "without such a port", claim: moving("a")},
		{name: "no endpoint ends", status: 503, port: at.Port(), claim: moving()},
		{name: "the Node's own endpoints end", status: 503, port: at.Port(), claim: moving("b")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status.Store(int32(tt.status))
			services := cache.NewStore(cache.MetaNamespaceKeyFunc)
			if err := services.Add(localService(int32(tt.port))); err != nil {
				t.Fatal(err)
			}
			poked := make(chan struct{}, 1)
			c := newCarriage(func() { poked <- struct{}{} })
			early := func(claims ...announce.Claim) bool {
				v := &announce.View{Node: "b", Addresses: map[string]netip.Addr{"b": at.Addr()}, Claims: claims}
				c.mark(t.Context(), v, services)
				return len(claims) > 0 && claims[0].Early
			}
			if got := early(tt.claim); got != tt.asks {
				t.Errorf("early before it has answered: %t, want %t", got, tt.asks)
			}
			select {
			case <-poked:
			case <-time.After(300 * time.Millisecond):
			}
			if got := early(tt.claim); got != tt.early {
				t.Errorf("early: %t, want %t", got, tt.early)
			}
			if !tt.early {
				return
			}
			status.Store(200)
			began := time.Now()
			<-poked
			t.Logf("not early any more after %s", time.Since(began))
			if early(tt.claim) {
				t.Error("early, and kube-proxy has endpoints")
			}
			status.Store(503)
			early() // the address has moved
			if !early(tt.claim) {
				t.Error("an answer of the last time was taken for one of this time")
			}
			early()
			time.Sleep(3 * carriageEvery)
			before := asked.Load()
			time.Sleep(3 * carriageEvery)
			if asked.Load() != before {
				t.Error("it goes on asking for nothing")
			}
		})
	}
}

func localService(port int32) *corev1.Service {
	const local = corev1.ServiceExternalTrafficPolicyLocal
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec:       corev1.ServiceSpec{ExternalTrafficPolicy: local, HealthCheckNodePort: port},
	}
}

// moving is a claim of Nodes a and b.
func moving(ending ...string) announce.Claim {
	return announce.Claim{
		Address: netip.MustParseAddr("192.0.2.50"), Level: v1alpha1.LevelL2, Candidates: []string{"a", "b"}, Ending: ending,
		Services: []types.NamespacedName{{Namespace: "shop", Name: "web"}},
	}
}
