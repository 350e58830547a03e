package agent

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// traffic counts writes, and the bytes of their bodies in both directions, as they are before compression.
type traffic struct {
	mu            sync.Mutex
	writes, bytes int
}

func (c *traffic) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet {
			return next.RoundTrip(r)
		}
		c.mu.Lock()
		c.writes, c.bytes = c.writes+1, c.bytes+int(r.ContentLength)
		c.mu.Unlock()
		response, err := next.RoundTrip(r)
		if err == nil {
			response.Body = countingBody{response.Body, c}
		}
		return response, err
	})
}

// since returns what has come since the last call.
func (c *traffic) since() (writes, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	writes, bytes = c.writes, c.bytes
	c.writes, c.bytes = 0, 0
	return writes, bytes
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type countingBody struct {
	io.ReadCloser
	to *traffic
}

func (b countingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.to.mu.Lock()
	defer b.to.mu.Unlock()
	b.to.bytes += n
	return n, err
}

// An agent of a thousand Nodes writes its routes when they change. What it writes every 20 seconds stays small.
func TestCluster_Reports_Traffic(t *testing.T) {
	applyDefinitions(t)
	count := &traffic{}
	config := rest.CopyConfig(plane.Config)
	config.Wrap(count.wrap)
	c, err := newCaches(config)
	if err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(plane.Config)
	_, err = client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "t1"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	go c.nodes.RunWithContext(t.Context())
	if !cache.WaitForCacheSync(t.Context().Done(), c.nodes.HasSynced) {
		t.Fatal("the Nodes are not known")
	}
	ours, err := objects.New(config)
	must(t, err)
	routes := thousandRoutes()
	reports, err := newRoutesReporter(ours, "t1", c.nodes, func() ([]v1alpha1.AgentRoute, []v1alpha1.RouteProblem, bool) {
		return routes, nil, true
	})
	must(t, err)
	report := func() {
		t.Helper()
		object, _ := reports.current()
		must(t, reports.write(t.Context(), object))
	}
	lives, err := newReporter(config, "t1", "test", c)
	if err != nil {
		t.Fatal(err)
	}
	lives.sources = append(lives.sources, func(s *v1alpha1.NodeAgentStatus) { s.Routed = int32(len(routes)) })
	writeBoth := func() {
		t.Helper()
		if err := lives.write(t.Context()); err != nil {
			t.Fatal(err)
		}
		report()
	}
	writeBoth()
	count.since()
	for range int(time.Minute / renewPeriod) {
		writeBoth()
	}
	writes, bytes := count.since()
	t.Logf("1,000 routes, nothing changes: %d writes and %d bytes a minute", writes, bytes)
	if writes > 3 || bytes > 10_000 {
		t.Errorf("%d writes and %d bytes a minute, want 3 and at most 10,000", writes, bytes)
	}
	routes = append([]v1alpha1.AgentRoute{}, routes...)
	routes[0].Via = "198.19.0.1"
	report()
	writes, bytes = count.since()
	t.Logf("one of 1,000 routes changes: %d write and %d bytes, there and back", writes, bytes)
	if writes != 1 {
		t.Errorf("a change takes %d writes", writes)
	}
	comesBack(t, reports)
}

// comesBack deletes a report, which its agent then writes anew.
func comesBack(t *testing.T, reports *routesReporter) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { reports.run(ctx) })
	defer running.Wait()
	defer cancel()
	if !cache.WaitForCacheSync(ctx.Done(), reports.own.HasSynced) {
		t.Fatal("the own report is not watched")
	}
	ours, err := objects.New(plane.Config)
	if err != nil {
		t.Fatal(err)
	}
	if err := ours.NodeRoutes.Delete(ctx, "t1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		found, err := ours.NodeRoutes.Get(ctx, "t1", metav1.GetOptions{})
		if err == nil && len(found.Routes) == 1000 && len(found.OwnerReferences) == 1 {
			t.Logf("a report that was deleted is back after %s", time.Since(began))
			return
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("a report that was deleted did not come back: %v", err)
		}
	}
}

func thousandRoutes() []v1alpha1.AgentRoute {
	var list []v1alpha1.AgentRoute
	for n := range 1000 {
		list = append(list, v1alpha1.AgentRoute{
			Destination: fmt.Sprintf("10.244.%d.%d/26", n/4, n%4*64), Via: fmt.Sprintf("198.18.%d.%d", n/250, 2+n%250),
			Node: fmt.Sprintf("worker-%04d", n),
		})
	}
	return list
}
