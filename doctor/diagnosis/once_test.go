package diagnosis

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/templates"
)

// answering is an API server that has what a snapshot has, and notes what it is asked.
type answering struct {
	lists map[string]any // by path

	mu    sync.Mutex
	asked map[string]int
}

func newAnswering(s *Snapshot) *answering {
	const system = "/namespaces/" + v1alpha1.Namespace
	return &answering{asked: map[string]int{}, lists: map[string]any{
		"/api/v1/nodes":                                                  corev1.NodeList{Items: s.Nodes},
		"/api/v1" + system + "/pods":                                     corev1.PodList{Items: s.Pods},
		"/apis/apps/v1/deployments":                                      appsv1.DeploymentList{Items: s.Deployments},
		"/apis/coordination.k8s.io/v1" + system + "/leases":              coordinationv1.LeaseList{Items: s.Leases},
		"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases": coordinationv1.LeaseList{Items: s.Heartbeats},
	}}
}

func (a *answering) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked[r.Method+" "+r.URL.String()+string(body)]++
	w.Header().Set("Content-Type", "application/json")
	switch list, known := a.lists[r.URL.Path]; {
	case known:
		_ = json.NewEncoder(w).Encode(list)
	case r.Method == http.MethodPost: // a question about permissions
		_, _ = io.WriteString(w, `{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "status": {"allowed": true}}`)
	default:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}`)
	}
}

// Nothing is asked for twice, and nothing that a list has shown is asked for by its name.
func TestGather_AsksOnce(t *testing.T) {
	s := newSnapshot(templates.Deployment, 3, tainted)
	s.Leases[0].Spec.RenewTime.Time = time.Now()
	server := newAnswering(s)
	h := httptest.NewServer(server)
	t.Cleanup(h.Close)
	seen, err := Gather(t.Context(), kubernetes.NewForConfigOrDie(&rest.Config{Host: h.URL, QPS: -1}))
	if err != nil {
		t.Fatal(err)
	}
	if len(seen.Nodes) != 4 || len(seen.Pods) != 1 || len(seen.Leases) != 1 || len(seen.Reviews) == 0 {
		t.Fatalf("it has seen %d Nodes, %d pods, %d Leases, %d reviews", len(seen.Nodes), len(seen.Pods), len(seen.Leases), len(seen.Reviews))
	}
	for request, times := range server.asked {
		method, address, _ := strings.Cut(request, " ")
		if _, listed := server.lists[path.Dir(address)]; times > 1 || listed && method == http.MethodGet {
			t.Errorf("asked %d times: %s", times, request)
		}
	}
	t.Logf("%d requests", len(server.asked))
}

// TestGather_Balancing: warnings about Services are asked for where one waits, and kept of that one.
func TestGather_Balancing(t *testing.T) {
	for name, want := range map[string]int{"web": 1, "served": 0} {
		s := newSnapshot(templates.Deployment, 1, service(name, 0))
		s.Leases[0].Spec.RenewTime.Time = time.Now()
		s.Services[0].CreationTimestamp.Time = time.Now().Add(-time.Hour)
		if name == "served" {
			s.Services[0].Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
		}
		server := newAnswering(s)
		server.lists["/api/v1/services"] = corev1.ServiceList{Items: s.Services}
		var events corev1.EventList
		for _, of := range []string{name, "other"} {
			events.Items = append(events.Items, corev1.Event{
				InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: "shop", Name: of}, Reason: "SyncLoadBalancerFailed", Message: "Quota has been met",
			})
		}
		server.lists["/api/v1/events"] = events
		h := httptest.NewServer(server)
		t.Cleanup(h.Close)
		seen, err := Gather(t.Context(), kubernetes.NewForConfigOrDie(&rest.Config{Host: h.URL, QPS: -1}))
		if err != nil || len(seen.Events) != want {
			t.Errorf("%s: it has seen %+v, %v", name, seen.Events, err)
		}
	}
}
