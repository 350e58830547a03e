package upgrade

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/upgrade/planner"
)

// Patches put other containers into a static pod, and programs that start the component. Their arguments are not the component's.
func TestManifestUses_ComponentsOwn(t *testing.T) {
	m, _ := machinetest.New(t)
	for component, containers := range map[string]string{
		"kube-apiserver": "[{name: kms, args: [--cloud-provider=x]}, {name: kube-apiserver, command: [kube-apiserver, --v=2]}]",
		"kube-scheduler": "[{name: s, command: [/go-runner, --log-file=/x, /usr/bin/kube-scheduler], args: [--v, '3', --leader-elect]}]",
		"etcd":           "[{name: e, args: [--data-dir=/var/lib/etcd]}]",
	} {
		machinetest.Put(t, m, machine.ManifestDir+"/"+component+".yaml", "spec: {containers: "+containers+"}\n")
	}
	uses, err := manifestUses(m, "cp1")
	var got []string
	for _, u := range uses {
		got = append(got, string(u.Component)+" "+u.Name)
	}
	want := []string{"kube-apiserver v", "kube-scheduler v", "kube-scheduler leader-elect", "etcd data-dir"}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

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
