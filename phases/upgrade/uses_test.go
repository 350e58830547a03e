package upgrade

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/upgrade/planner"
)

// A kubelet that does not tell its feature gates has some for all that is known, on this machine, too. One is asked again.
func TestKubeletUses_Unseen(t *testing.T) {
	var asked atomic.Int32 // w2, for its feature gates
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		node := strings.Split(r.URL.Path, "/")[4]
		switch {
		case strings.HasSuffix(r.URL.Path, "flagz"):
			fmt.Fprint(w, `{"kind": "Flagz", "flags": {"v": "2"}}`)
		case node == "cp1" || node == "w1" || node == "w2" && asked.Add(1) == 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			fmt.Fprint(w, `{"kubeletconfig": {"featureGates": {"SidecarContainers": true}}}`)
		}
	}))
	defer server.Close()
	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: server.URL})
	m, _ := machinetest.New(t)
	f := &planner.Facts{Here: "cp1", Nodes: []planner.Node{{Name: "cp1"}, {Name: "w1"}, {Name: "w2"}, {Name: "w3"}}}
	if err := kubeletUses(t.Context(), m, client, f, version.MustParseSemantic("v1.37.2")); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(f.Unseen, " "); got != "cp1 w1" {
		t.Errorf("unseen %q, want cp1 w1", got)
	}
	var gates []string
	for _, u := range f.Uses {
		gates = append(gates, u.Node+" "+u.Name)
	}
	if got := strings.Join(gates, ", "); got != "w2 feature-gates.SidecarContainers, w3 feature-gates.SidecarContainers" {
		t.Errorf("got %s", got)
	}
}
