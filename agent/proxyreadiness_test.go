package agent

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
)

// proxyOf answers with a status as kube-proxy does for a Service, and counts how often it was asked.
type proxyOf struct {
	at            netip.AddrPort
	status, asked atomic.Int32
}

func newProxyOf(t *testing.T) *proxyOf {
	t.Helper()
	leaks := goleak.IgnoreCurrent()
	p := &proxyOf{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		p.asked.Add(1)
		w.WriteHeader(int(p.status.Load()))
	}))
	t.Cleanup(func() { server.Close(); goleak.VerifyNone(t, leaks) })
	p.at = netip.MustParseAddrPort(server.Listener.Addr().String())
	return p
}

// marker is the proxyReadiness of Node b.
type marker struct {
	*proxyReadiness
	services cache.Store
	poked    chan struct{}
}

func newMarker(t *testing.T, port uint16) *marker {
	t.Helper()
	a := &marker{services: cache.NewStore(cache.MetaNamespaceKeyFunc), poked: make(chan struct{}, 1)}
	a.proxyReadiness = newProxyReadiness(func() { a.poked <- struct{}{} })
	if err := a.services.Add(localService(int32(port))); err != nil {
		t.Fatal(err)
	}
	return a
}

// early marks claims, and says whether the first is early.
func (a *marker) early(ctx context.Context, claims ...announce.Claim) bool {
	loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	v := &announce.View{Node: "b", Addresses: map[string]netip.Addr{"b": loopback}, Claims: claims}
	a.mark(ctx, v, a.services)
	return len(claims) > 0 && claims[0].Early
}

// preferring is a claim of which no endpoint ends, and one Node is preferred.
func preferring(node string) announce.Claim {
	c := moving()
	c.Preferred = []string{node}
	return c
}

// An address is early on a Node as long as its kube-proxy has not answered, or answers that it has no endpoints.
func TestProxyReadiness(t *testing.T) {
	p := newProxyOf(t)
	const nobody = 1 // listens there
	for _, tt := range []struct {
		name   string
		status int32
		port   uint16
		claim  announce.Claim
		asks   bool
		early  bool // after the answer
	}{
		{name: "it has none", status: 503, port: p.at.Port(), claim: moving("a"), asks: true, early: true},
		{name: "it has some", status: 200, port: p.at.Port(), claim: moving("a"), asks: true},
		{name: "it knows nothing of the Service", status: 404, port: p.at.Port(), claim: moving("a"), asks: true},
		{name: "nobody answers", port: nobody, claim: moving("a"), asks: true},
		{name: "without such a port", claim: moving("a")},
		{name: "the Node is preferred, and has none yet", status: 503, port: p.at.Port(), claim: preferring("b"), asks: true, early: true},
		{name: "another Node is preferred", status: 503, port: p.at.Port(), claim: preferring("a")},
		{name: "no endpoint ends", status: 503, port: p.at.Port(), claim: moving()},
		{name: "the Node's own endpoints end", status: 503, port: p.at.Port(), claim: moving("b")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p.status.Store(tt.status)
			a := newMarker(t, tt.port)
			if got := a.early(t.Context(), tt.claim); got != tt.asks {
				t.Errorf("early before there is an answer: %t, want %t", got, tt.asks)
			}
			if tt.asks && !tt.early {
				<-a.poked
			} else {
				time.Sleep(5 * proxyPollInterval)
			}
			if got := a.early(t.Context(), tt.claim); got != tt.early {
				t.Errorf("early: %t, want %t", got, tt.early)
			}
		})
	}
}

// kube-proxy is asked until it has endpoints, once more when the address moves again, and else not.
func TestProxyReadiness_AsksAgain(t *testing.T) {
	p := newProxyOf(t)
	p.status.Store(503)
	a := newMarker(t, p.at.Port())
	a.early(t.Context(), moving("a"))
	time.Sleep(5 * proxyPollInterval)
	p.status.Store(200)
	<-a.poked
	if a.early(t.Context(), moving("a")) {
		t.Error("early, and kube-proxy has endpoints")
	}
	p.status.Store(503)
	a.early(t.Context()) // the address has moved
	if !a.early(t.Context(), moving("a")) {
		t.Error("an answer of the last time was taken for one of this time")
	}
	a.early(t.Context())
	for began, before := time.Now(), int32(-1); p.asked.Load() != before; { // a question may be on its way
		if time.Since(began) > time.Minute {
			t.Fatal("it goes on asking for nothing")
		}
		before = p.asked.Load()
		time.Sleep(5 * proxyPollInterval)
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
		Address: netip.MustParseAddr("192.0.2.50"), Level: v1alpha1.LevelL2,
		Candidates: []string{"a", "b"}, Ending: ending,
		Services: []types.NamespacedName{{Namespace: "shop", Name: "web"}},
	}
}

// answers503 is a kube-proxy that never has an endpoint of the Service.
type answers503 struct{ asked atomic.Int32 }

func (a *answers503) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	a.asked.Add(1)
	return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody}, nil
}

// TestProxyReadiness_WithoutAnEndpointForEver: pods lack the Service's target port, so kube-proxy never has an endpoint. It is asked often at
// first, and then once a second.
func TestProxyReadiness_WithoutAnEndpointForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proxy := &answers503{}
		p := newProxyReadiness(func() {})
		p.client = &http.Client{Transport: proxy}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		p.ask(ctx, "http://192.0.2.1:30000/", &question{})
		if asked := proxy.asked.Load(); asked < 240 || asked > 900 {
			t.Errorf("it was asked %d times in 10 minutes", asked)
		}
	})
}
