package balancer

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/balancer/evaluation"
)

// refuser is a webhook that refuses status of Services, by the beginning of their names, and claims.
type refuser struct {
	next http.RoundTripper

	mu       sync.Mutex
	services string // "": none
	claims   bool
	asked    map[string]int // by name of the Service, or "claims"
}

// RoundTrip counts what it refuses.
func (r *refuser) RoundTrip(request *http.Request) (*http.Response, error) {
	path, what := strings.TrimPrefix(request.URL.Path, "/api/v1/namespaces/default/services/"), ""
	r.mu.Lock()
	switch name, status := strings.CutSuffix(path, "/status"); {
	case r.services != "" && request.Method == http.MethodPatch && status && strings.HasPrefix(name, r.services):
		what = name
	case r.claims && request.Method == http.MethodPost && strings.HasSuffix(path, "/ipaddresses"):
		what = "claims"
	}
	if what != "" {
		r.asked[what]++
	}
	r.mu.Unlock()
	if what == "" {
		return r.next.RoundTrip(request)
	}
	text := `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"webhook denied the request","code":400}`
	return &http.Response{
		StatusCode: http.StatusBadRequest, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(text)), Request: request,
	}, nil
}

// refuse sets what is refused, and returns how often it was asked for what it refused before.
func (r *refuser) refuse(services string, claims bool) map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	asked := r.asked
	r.services, r.claims, r.asked = services, claims, map[string]int{}
	return asked
}

// count is how often it was asked for something that it refuses.
func (r *refuser) count(what string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked[what]
}

// attempts is how often a Service is patched within a time: at once, after one second, two seconds later, four seconds later.
func attempts(within time.Duration) int {
	n := 1
	for at, pause := minRetry, minRetry; at <= within; at += pause {
		n, pause = n+1, min(2*pause, maxRetry)
	}
	return n
}

// What the API server refuses is not asked for again whenever something changes, and nobody else waits for it.
func TestCluster_Refused(t *testing.T) {
	c := newCluster(t, addressPool("lan", "192.0.2.0/26"))
	r := &refuser{}
	config := rest.CopyConfig(plane.Config)
	config.QPS = -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { r.next = next; return r })
	c.client = kubernetes.NewForConfigOrDie(config)
	c.lead()
	go func() {
		for ; t.Context().Err() == nil; time.Sleep(50 * time.Millisecond) {
			c.leader.changed()
		}
	}()

	r.refuse("bad", false)
	began := time.Now()
	const bad = 20
	for n := range bad {
		c.create(fmt.Sprint("bad", n))
	}
	time.Sleep(8 * time.Second) // the next patch is due in seven seconds
	c.create("good")
	c.before(maxRetry/2, "good", func(s *corev1.Service) bool { return address(s) != "" })
	took := time.Since(began)
	asked := r.refuse("bad", false)
	for name, n := range asked {
		if n > attempts(took) {
			t.Errorf("Service %s was patched %d times in %s", name, n, took)
		}
	}
	if len(asked) < bad {
		t.Errorf("%d of %d Services were patched: %v", len(asked), bad, asked)
	}

	r.refuse("", false)
	c.patch("bad1", `{"metadata":{"labels":{"by":"hand"}}}`)
	c.before(5*time.Second, "bad1", func(s *corev1.Service) bool { return address(s) != "" })
	c.within(maxRetry, "bad0", func(s *corev1.Service) bool { return address(s) != "" })

	r.refuse("", true)
	began = time.Now()
	c.create("unclaimed")
	time.Sleep(4 * time.Second)
	for r.count("claims") < 2 && time.Since(began) < time.Minute {
		time.Sleep(100 * time.Millisecond)
	}
	took = time.Since(began)
	if n := r.refuse("", false)["claims"]; n < 2 || n > int(took/time.Second)+1 {
		t.Errorf("a claim was written %d times in %s, and is to be once a second", n, took)
	}
	c.within(3*time.Second, "unclaimed", func(s *corev1.Service) bool { return address(s) != "" })
}

// A Service whose patches are refused rests, and loses its address to another one: that is withdrawn at once, also while it rests. A
// withdrawal that is refused, too, is not asked for again in each pass.
func TestCluster_WithdrawnWhileItRests(t *testing.T) {
	c := newCluster(t, addressPool("lan", "192.0.2.50"))
	c.create("web")
	s := c.within(5*time.Second, "web", reasonIs(allocator.AnnouncedReason))
	r := &refuser{asked: map[string]int{}}
	config := rest.CopyConfig(plane.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { r.next = next; return r })
	c.end()
	b := c.leader
	b.Client = kubernetes.NewForConfigOrDie(config)
	b.refused[s.UID] = refusal{version: s.ResourceVersion, pause: maxRetry, until: b.Now().Add(maxRetry)}
	write := func(after *corev1.Service) {
		t.Helper()
		w := newWritten()
		if err := b.writeService(t.Context(), &evaluation.Status{Service: s, After: after}, w); err != nil {
			t.Error(err)
		}
	}
	edited := s.DeepCopy()
	edited.Annotations["example.com/any"] = "thing"
	lost := edited.DeepCopy()
	lost.Status.LoadBalancer.Ingress = nil
	r.refuse("web", false)
	for range 3 {
		write(edited)
	}
	if n := r.refuse("web", false)["web"]; n != 0 {
		t.Errorf("it rests, and was patched %d times", n)
	}
	for range 3 {
		write(lost)
	}
	if n := r.refuse("", false)["web"]; n != 1 {
		t.Errorf("it has lost its address, and the API server refuses to withdraw it: it was asked %d times", n)
	}
	b.refused[s.UID] = refusal{version: s.ResourceVersion, pause: maxRetry, until: b.Now().Add(maxRetry)}
	write(lost)
	if got := c.within(time.Second, "web", hasAddress("")); got.Annotations["example.com/any"] != "" {
		t.Errorf("more was written: %v", got.Annotations)
	}
}
