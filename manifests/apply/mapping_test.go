package apply

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// A kind is gone only where the API server says so: not where it cannot be asked, or does not serve a definition.
func TestApplied_Objects(t *testing.T) {
	answers := map[string]string{
		"/api": `{"kind": "APIVersions", "versions": ["v1"]}`,
		"/apis": `{"kind": "APIGroupList", "apiVersion": "v1", "groups": [
			{"name": "newer.example", "versions": [{"groupVersion": "newer.example/v1", "version": "v1"}]},
			{"name": "apiregistration.k8s.io", "versions": [{"groupVersion": "apiregistration.k8s.io/v1", "version": "v1"}]},
			{"name": "down.example", "versions": [{"groupVersion": "down.example/v1", "version": "v1"}]}]}`,
		"/apis/newer.example/v1": `{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "newer.example/v1",
			"resources": [{"name": "widgets", "kind": "Widget", "namespaced": true, "verbs": ["delete"]}]}`,
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions": `{"kind": "CustomResourceDefinitionList", "apiVersion": "apiextensions.k8s.io/v1",
			"items": [{"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1", "metadata": {"name": "widgets.later.example"},
			"spec": {"group": "later.example", "names": {"kind": "Widget"}}}]}`,
		"/apis/apiregistration.k8s.io/v1": `{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "apiregistration.k8s.io/v1",
			"resources": [{"name": "apiservices", "kind": "APIService", "namespaced": false, "verbs": ["list"]}]}`,
		"/apis/apiregistration.k8s.io/v1/apiservices": `{"kind": "APIServiceList", "apiVersion": "apiregistration.k8s.io/v1", "items": [` +
			service("local.example", "", "False") + "," + service("here.example", "metrics", "True") + "," +
			service("away.example", "metrics", "False") + `]}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, is := answers[r.URL.Path]
		w.Header().Set("Content-Type", "application/json")
		if !is {
			w.WriteHeader(http.StatusServiceUnavailable)
			answer = `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "ServiceUnavailable", "code": 503}`
		}
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(server.Close)
	for id, tt := range map[string]struct{ want, wantErr string }{
		"kube-system_w1__ConfigMap":           {want: "ConfigMap/w1"},
		"kube-system_w1_newer.example_Widget": {want: "Widget/w1"},
		"kube-system_w1_newer.example_Gadget": {},
		"kube-system_w1_gone.example_Widget":  {},
		"kube-system_w1_local.example_Widget": {},
		"kube-system_w1_here.example_Widget":  {},
		"kube-system_w1_away.example_Widget":  {wantErr: "the server of APIService/v1.away.example does not answer"},
		"kube-system_w1_down.example_Widget": {
			wantErr: "delete Widget.down.example w1: the API server cannot be asked for its kind: ",
		},
		"kube-system_w1_later.example_Widget": {
			wantErr: "it does not serve what CustomResourceDefinition/widgets.later.example defines",
		},
		"_w1_rbac.authorization.k8s.io_ClusterRole": {want: "ClusterRole/w1"},
	} {
		manager, err := newManager(&rest.Config{Host: server.URL}, false)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		list, err := applied{id: "x"}.objects(t.Context(), manager.Client())
		for _, o := range list {
			names = append(names, o.GetKind()+"/"+o.GetName())
		}
		got := strings.Join(names, " ")
		if got != tt.want || (err != nil) != (tt.wantErr != "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
			t.Errorf("%s: got %q, error %v, want %q, error %q", id, got, err, tt.want, tt.wantErr)
		}
	}
}

// service is the APIService of a group; one without a server's name is the API server's own.
func service(group, server, available string) string {
	if server != "" {
		server = fmt.Sprintf(`"service": {"namespace": "kube-system", "name": %q}, `, server)
	}
	return fmt.Sprintf(`{"kind": "APIService", "apiVersion": "apiregistration.k8s.io/v1", "metadata": {"name": "v1.%s"},
		"spec": {%s"group": %q, "version": "v1"}, "status": {"conditions": [{"type": "Available", "status": %q}]}}`,
		group, server, group, available)
}
