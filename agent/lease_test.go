package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// recording is an API server with the NodeAgent and the NodeAgentLease of one Node. It has a code for those who write the lease.
type recording struct {
	leases int // the code; 0: they are kept

	mu      sync.Mutex
	objects map[string]json.RawMessage // by path
	writes  map[string][]time.Time     // by kind
}

// RoundTrip keeps what is written.
func (k *recording) RoundTrip(request *http.Request) (*http.Response, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	path := strings.TrimSuffix(request.URL.Path, "/status")
	kind := strings.Split(path, "/")[4]
	answer := func(code int, body string) *http.Response {
		return &http.Response{
			StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: request,
		}
	}
	status := func(code int, reason metav1.StatusReason) *http.Response {
		return answer(code, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q}`, code, reason))
	}
	if kind == "nodeagentleases" && k.leases != 0 {
		return status(k.leases, map[int]metav1.StatusReason{404: metav1.StatusReasonNotFound, 403: metav1.StatusReasonForbidden}[k.leases]), nil
	}
	if request.Method == http.MethodGet {
		if body, there := k.objects[path]; there {
			return answer(http.StatusOK, string(body)), nil
		}
		return status(http.StatusNotFound, metav1.StatusReasonNotFound), nil
	}
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	if request.Method == http.MethodPost {
		path += "/w1"
	}
	k.objects[path] = body
	k.writes[kind] = append(k.writes[kind], time.Now())
	return answer(http.StatusOK, string(body)), nil
}

// count is how often a kind was written since then.
func (k *recording) count(kind string, since time.Time) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for _, at := range k.writes[kind] {
		if !at.Before(since) {
			n++
		}
	}
	return n
}

// known is an informer that has a Node.
type known struct {
	still
	store cache.Store
}

// GetStore has it.
func (k known) GetStore() cache.Store { return k.store }

func newKnown(t *testing.T) known {
	t.Helper()
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	if err := store.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1", UID: "u"}}); err != nil {
		t.Fatal(err)
	}
	return known{store: store}
}

// runReporter runs the reporter of w1, and renews the reader's Lease every 5 s as long as pulses says so.
func runReporter(t *testing.T, server *recording, pulses func() bool, sources ...func(*v1alpha1.NodeAgentStatus)) (r *reporter) {
	t.Helper()
	server.objects, server.writes = map[string]json.RawMessage{}, map[string][]time.Time{}
	client, err := objects.New(&rest.Config{Host: "http://api", QPS: -1, Transport: server})
	if err != nil {
		t.Fatal(err)
	}
	nodes := newKnown(t)
	r = &reporter{
		node: "w1", agents: client.NodeAgents, nodes: nodes, changes: make(chan struct{}, 1), gone: make(chan struct{}, 1),
		lease: &lease{node: "w1", client: client.NodeAgentLeases, nodes: nodes}, reader: &reader{}, sources: sources,
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() {
		for ctx.Err() == nil {
			if pulses() {
				r.reader.trust(time.Now(), &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{LeaseDurationSeconds: new(int32(3600))}})
			}
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Second):
			}
		}
	}()
	go r.run(ctx)
	return r
}

// While a manager watches leases the report is written once, and the lease every 20 seconds. When it stops, the report is written before a
// manager that reads nothing else takes the agent for dead, and every 20 seconds from then on.
func TestReporter_LeaseInsteadOfReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, start := &recording{}, time.Now()
		var reads atomic.Bool
		reads.Store(true)
		r := runReporter(t, server, reads.Load)
		time.Sleep(10 * time.Minute)
		if agents, leases := server.count("nodeagents", start), server.count("nodeagentleases", start); agents > 2 || leases < 28 || leases > 31 {
			t.Errorf("in ten minutes the report was written %d times, want its making and one write; the lease %d times, want 28 to 31", agents, leases)
		}
		changed := time.Now()
		r.changed()
		time.Sleep(time.Second)
		if n := server.count("nodeagents", changed); n != 1 {
			t.Errorf("a change was reported %d times, want once", n)
		}
		reads.Store(false)
		stopped := time.Now()
		time.Sleep(objects.LiveTime - 20*time.Second)
		if n := server.count("nodeagents", stopped); n == 0 {
			t.Errorf("%s after the last sign of a manager there is no report", time.Since(stopped))
		}
		stopped = time.Now()
		time.Sleep(5 * time.Minute)
		if agents, leases := server.count("nodeagents", stopped), server.count("nodeagentleases", stopped); agents < 14 || leases > 0 {
			t.Errorf("in five minutes without a manager the report was written %d times, want 14 or more; the lease %d times, want none", agents, leases)
		}
		reads.Store(true)
		time.Sleep(30 * time.Second)
		again := time.Now()
		time.Sleep(5 * time.Minute)
		if n := server.count("nodeagents", again); n > 0 {
			t.Errorf("in five minutes with a manager the report was written %d times", n)
		}
	})
}

// Where leases cannot be written, reports are renewed as before.
func TestReporter_LeaseRefused(t *testing.T) {
	for _, code := range []int{http.StatusForbidden, http.StatusNotFound} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, start := &recording{leases: code}, time.Now()
				runReporter(t, server, func() bool { return true })
				time.Sleep(5 * time.Minute)
				if n := server.count("nodeagents", start); n < 14 || n > 18 {
					t.Errorf("in five minutes the report was written %d times, want 14 to 18", n)
				}
			})
		})
	}
}

// What is found out only when a report is made, such as a port on which something listens, is written, too.
func TestReporter_LeaseOfAChangedReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &recording{}
		var mu sync.Mutex
		var listening []string
		runReporter(t, server, func() bool { return true }, func(s *v1alpha1.NodeAgentStatus) {
			mu.Lock()
			defer mu.Unlock()
			s.Listening = listening
		})
		time.Sleep(time.Minute)
		before := time.Now()
		mu.Lock()
		listening = []string{"tcp/9100"}
		mu.Unlock()
		time.Sleep(time.Minute)
		if n := server.count("nodeagents", before); n != 1 {
			t.Errorf("the report was written %d times, want once", n)
		}
	})
}

// A vote that the manager took is returned by a report; a lease would not do it.
func TestReporter_MarkedSilent(t *testing.T) {
	r := &reporter{node: "w1", changes: make(chan struct{}, 1)}
	agent := &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: "w1"}}
	agent.Annotations = map[string]string{v1alpha1.AgentSilentAnnotation: agent.Status.Renewed()}
	other := agent.DeepCopy()
	other.Name = "w2"
	r.marked(other)
	if len(r.changes) > 0 {
		t.Error("it reports because another one is silent")
	}
	r.marked(agent)
	r.marked(agent) // does not wait
	if len(r.changes) != 1 {
		t.Error("it is marked as silent, and does not report")
	}
}

// A Lease that is found is no sign that a manager renews it; nor does its duration bind agents.
func TestReader_Trusted(t *testing.T) {
	now := time.Now()
	var none *reader
	if none.trusted(now) > 0 || (&reader{}).trusted(now) > 0 {
		t.Error("without a Lease a manager is trusted to watch")
	}
	for seconds, want := range map[int32]time.Duration{3600: longestTrust, 10: 10 * time.Second, 0: 0, -1: -time.Second} {
		r := &reader{}
		r.trust(now, &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{LeaseDurationSeconds: &seconds}})
		if got := r.trusted(now).Round(time.Millisecond); got != want {
			t.Errorf("a Lease of %d s is trusted for %s, want %s", seconds, got, want)
		}
	}
}
