package adoption

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/phases/workflow"
)

// The end of the wait may cut a question. What was answered before still says what is left; without an answer there is
// an error.
func TestAwaitBalancers_EndCutsQuestion(t *testing.T) {
	const services = `{"kind": "ServiceList", "apiVersion": "v1", "items": [{"metadata": {"namespace": "default", "name": "web",
		"finalizers": ["service.kubernetes.io/load-balancer-cleanup"]}}]}`
	for _, tt := range []struct {
		name    string
		answers int32
		wait    time.Duration
		want    []string
		fails   bool
	}{
		{name: "after an answer", answers: 1, wait: 8 * time.Second, want: []string{"default/web"}},
		{name: "without any", wait: 3 * time.Second, fails: true, want: []string{"default/before"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if asked.Add(1) > tt.answers {
					<-r.Context().Done()
					return
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(services))
			}))
			defer server.Close()
			client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			env := &workflow.Env{Streams: workflow.Streams{Out: &out, Err: &out}}
			a := &Adoption{WaitLoadBalancers: tt.wait}
			got, err := a.awaitBalancers(t.Context(), env, client, []string{"default/before"})
			if (err != nil) != tt.fails {
				t.Errorf("error %v, want one: %t", err, tt.fails)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}

// A pod of a DaemonSet has its labels, and is deleted with it.
func TestGoesWithOwner(t *testing.T) {
	owned := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: "onprem-cloud-controller-manager", Controller: new(true)}},
	}}
	for _, tt := range []struct {
		kind   string
		object metav1.PartialObjectMetadata
		want   bool
	}{{"Pod", owned, true}, {"Pod", metav1.PartialObjectMetadata{}, false}, {"ConfigMap", owned, false}} {
		if got := goesWithOwner(schema.GroupVersionKind{Version: "v1", Kind: tt.kind}, &tt.object); got != tt.want {
			t.Errorf("%s with owners %v: %t, want %t", tt.kind, tt.object.OwnerReferences, got, tt.want)
		}
	}
}
