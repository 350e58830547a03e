package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/templates"
)

// An API server that is overloaded has not said that a Node is the requester's, nor that there is none: the request
// waits, without an Event, and is approved once there is an answer.
func TestCluster_ServingCertificatesWithoutAnswers(t *testing.T) {
	publish(t, fmt.Sprintf(served, 1, ""))
	permitted(t, "onprem", templates.StaticPod)
	onlyRegisters(t, "w1", "198.18.1.1")
	config, err := plane.User(v1alpha1.StaticPodUser)
	if err != nil {
		t.Fatal(err)
	}
	server := &unsteady{}
	server.refuse(http.MethodGet, "/api/v1/nodes/w1", http.StatusServiceUnavailable)
	start(t, server.before(t, config), "--cloud-config="+cloudConfig(t), "--approve-serving-certificates")
	initialized(t, "w1")
	csr := asks(t, kubeletOf(t, "w1"), "w1", "198.18.1.1", nil)
	for _, next := range []struct {
		method, path string
		code         int
	}{
		{http.MethodGet, "/apis/networking.k8s.io/v1/servicecidrs", http.StatusTooManyRequests},
		{http.MethodGet, "/api/v1/namespaces/kube-public/configmaps/cluster-info", http.StatusServiceUnavailable},
		{http.MethodPut, "/apis/certificates.k8s.io/v1/certificatesigningrequests/" + csr.Name + "/approval", http.StatusTooManyRequests},
		{}, // all is answered
	} {
		eventually(t, "an answer is refused", server.refused)
		if approved(t.Context(), t, csr) == nil {
			t.Fatal("it is approved without an answer")
		}
		server.refuse(next.method, next.path, next.code)
	}
	becomesApproved(t, csr)
	list, err := client(t, plane.Config).CoreV1().Events("").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(csr.UID)})
	if err != nil || len(list.Items) > 0 {
		t.Errorf("Events about it: %v, %v", list.Items, err)
	}
}

// unsteady is an API server's proxy that refuses one request.
type unsteady struct {
	mu           sync.Mutex
	method, path string
	code, times  int
}

func (u *unsteady) refuse(method, path string, code int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.method, u.path, u.code, u.times = method, path, code, 0
}

func (u *unsteady) refused(context.Context) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.times == 0 {
		return fmt.Errorf("%s %s was not asked", u.method, u.path)
	}
	return nil
}

// refuses says with which status.
func (u *unsteady) refuses(r *http.Request) (int, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if r.Method != u.method || r.URL.Path != u.path {
		return 0, false
	}
	u.times++
	return u.code, true
}

// before starts it before the API server, and returns a kubeconfig for it: it asks as that user.
func (u *unsteady) before(t *testing.T, config *rest.Config) []byte {
	t.Helper()
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	to, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if code, refused := u.refuses(r); refused {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "overloaded", code)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.CloseClientConnections)
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"x","cluster":{"server":%q}}],
"contexts":[{"name":"x","context":{"cluster":"x","user":"x"}}],"users":[{"name":"x"}],"current-context":"x"}`, server.URL)
}
