package balancer

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/balancer/evaluation"
)

// noConfigMaps answers as an API server does whose permissions are of a former release, and which is not there the
// second time.
type noConfigMaps struct {
	http.RoundTripper
	asked *atomic.Int32
}

func (n noConfigMaps) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.URL.Path, "/configmaps") {
		return n.RoundTripper.RoundTrip(r)
	}
	if n.asked.Add(1) > 2 {
		return nil, errors.New("connection refused")
	}
	body := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`
	return &http.Response{
		StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}, nil
}

// A cluster whose kube-proxy changes to mode ipvs withdraws the Nodes' addresses. The next manager publishes them.
func TestCluster_ProxyChangesItsMode(t *testing.T) {
	c := newCluster(t)
	c.node("n2", "198.18.0.2")
	c.create("web")
	c.within(5*time.Second, "web", reasonIs(allocator.NodeIPReason))
	maps := c.client.CoreV1().ConfigMaps(v1alpha1.Namespace)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: evaluation.ProxyName}, Data: map[string]string{evaluation.ProxyKey: ipvsMode}}
	if _, err := maps.Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s := c.within(5*time.Second, "web", reasonIs("ProxyBinds"))
	if got := address(s); got != "" {
		t.Errorf("%s is published still", got)
	}
	// The file says how kube-proxy begins: those that run are in mode ipvs still.
	cm.Data[evaluation.ProxyKey] = "mode: nftables\n"
	if _, err := maps.Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second)
	c.within(time.Second, "web", reasonIs("ProxyBinds"))
	c.lead()
	c.within(5*time.Second, "web", reasonIs(allocator.NodeIPReason))
	if err := maps.Delete(t.Context(), evaluation.ProxyName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}

	var asked atomic.Int32
	config := rest.CopyConfig(plane.Config)
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return noConfigMaps{rt, &asked} })
	c.client = kubernetes.NewForConfigOrDie(config)
	c.lead() // which may not read it: what is there stays, and nothing is added
	c.create("second", onPort(81))
	s = c.within(5*time.Second, "second", reasonIs("ProxyBinds"))
	said := allocator.Condition(s).Message
	if got := address(s); got != "" || !strings.Contains(said, "cannot read ConfigMap/kube-system/kube-proxy") {
		t.Errorf("published %q, said %+v", got, allocator.Condition(s))
	}
	c.within(time.Second, "web", reasonIs(allocator.NodeIPReason))
	for began := time.Now(); asked.Load() < 3; time.Sleep(100 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("it asked %d times", asked.Load())
		}
	}
	c.create("third", onPort(82))
	c.within(5*time.Second, "third", reasonIs("ProxyBinds"))
}
