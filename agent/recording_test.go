package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// recording is an API server with the NodeAgent and the NodeAgentLease of one Node. It has a code for those who write the lease.
type recording struct {
	leases        int           // the code; 0: they are kept
	announcements int           // the same for who writes these
	failures      atomic.Int32  // how many reports it is too busy for
	prunes        bool          // it does not know that announcements are apart
	conflicts     atomic.Int32  // how many leases another program has written meanwhile
	ill           atomic.Bool   // for who writes announcements
	slow          time.Duration // for the same

	mu      sync.Mutex
	objects map[string]json.RawMessage // by path
	writes  map[string][]time.Time     // by kind
}

// RoundTrip keeps what is written.
func (k *recording) RoundTrip(request *http.Request) (*http.Response, error) {
	if strings.Contains(request.URL.Path, "/nodeannouncements") {
		time.Sleep(k.slow)
	}
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
	if code := map[string]int{"nodeagentleases": k.leases, "nodeannouncements": k.announcements}[kind]; code != 0 {
		return status(code, map[int]metav1.StatusReason{404: metav1.StatusReasonNotFound, 403: metav1.StatusReasonForbidden}[code]), nil
	}
	if kind == "nodeagentleases" && request.Method == http.MethodPut && k.conflicts.Add(-1) >= 0 {
		delete(k.objects, path) // it is another one now
		return status(http.StatusConflict, metav1.StatusReasonConflict), nil
	}
	if kind == "nodeannouncements" && request.Method == http.MethodPut {
		if k.ill.Load() {
			return status(http.StatusInternalServerError, metav1.StatusReasonInternalError), nil
		}
	}
	if kind == "nodeagents" && request.Method == http.MethodPut && k.failures.Add(-1) >= 0 {
		return status(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable), nil
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
	if k.prunes && kind == "nodeagents" {
		body = bytes.ReplaceAll(body, []byte(`"announcementsApart":true,`), nil)
	}
	if request.Method == http.MethodPost {
		path += "/w1"
	}
	k.objects[path] = body
	k.writes[kind] = append(k.writes[kind], time.Now())
	return answer(http.StatusOK, string(body)), nil
}

// get reads an object.
func (k *recording) get(t *testing.T, kind string, into any) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	must(t, json.Unmarshal(k.objects["/apis/ccmadm.dev/v1alpha1/"+kind+"/w1"], into))
}

// keep has an object from the start on.
func (k *recording) keep(t *testing.T, kind string, object any) {
	t.Helper()
	data, err := json.Marshal(object)
	must(t, err)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.objects == nil {
		k.objects, k.writes = map[string]json.RawMessage{}, map[string][]time.Time{}
	}
	k.objects["/apis/ccmadm.dev/v1alpha1/"+kind+"/w1"] = data
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
	nodes, all := newKnown(t), newKnown(t)
	must(t, all.store.Add(&v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: "w1"}}))
	r = &reporter{
		all:  all,
		node: "w1", agents: client.NodeAgents, nodes: nodes, changes: make(chan struct{}, 1), gone: make(chan struct{}, 1),
		reader: &reader{}, sources: sources,
		marks: make(chan struct{}, 1),
	}
	r.lease, err = newLease(client, "w1", nodes)
	must(t, err)
	r.apart, err = newApart(client, "w1", nodes, r.reader, r.announces, r.changed)
	must(t, err)
	r.apart.own = newKnown(t)
	r.announcing, r.reader.begins = sources, r.announced
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	running.Go(func() {
		for ctx.Err() == nil {
			if pulses() {
				r.reader.trust(time.Now(), time.Hour)
			}
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Second):
			}
		}
	})
	running.Go(func() { r.run(ctx) })
	running.Go(func() { r.apart.run(ctx) })
	return r
}
