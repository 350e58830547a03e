package diagnosis

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/callouts"
	"github.com/ccmadm/ccmadm/templates"
)

// Only a webhook that is asked before a manager's objects are written, and whose silence refuses them, is looked at.
func TestValidating(t *testing.T) {
	ignore := admissionv1.Ignore
	outside := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"kube-system"},
	}}}
	rule := func(w *admissionv1.ValidatingWebhook) *admissionv1.RuleWithOperations { return &w.Rules[0] }
	tests := []struct {
		name   string
		change func(*admissionv1.ValidatingWebhook)
		want   []string
	}{
		{"pods", func(*admissionv1.ValidatingWebhook) {}, []string{"pods"}},
		{"nodes and their status", func(w *admissionv1.ValidatingWebhook) { rule(w).Resources = []string{"nodes", "nodes/status"} }, []string{"nodes", "nodes/status"}},
		{"everything", func(w *admissionv1.ValidatingWebhook) { rule(w).Resources = []string{"*/*"} }, []string{"nodes", "nodes/status", "pods", "services", "services/status"}},
		{"pods with all that belongs to them", func(w *admissionv1.ValidatingWebhook) { rule(w).Resources = []string{"pods/*"} }, []string{"pods"}},
		{"the status of everything", func(w *admissionv1.ValidatingWebhook) { rule(w).Resources = []string{"*/status"} }, []string{"nodes/status", "services/status"}},
		{"not subresources", func(w *admissionv1.ValidatingWebhook) { rule(w).Resources = []string{"*"} }, []string{"nodes", "pods", "services"}},
		{"Leases", func(w *admissionv1.ValidatingWebhook) {
			rule(w).Resources, rule(w).APIGroups = []string{"leases"}, []string{"coordination.k8s.io"}
		}, []string{"leases"}},
		{"pods of another group", func(w *admissionv1.ValidatingWebhook) { rule(w).APIGroups = []string{"metrics.k8s.io"} }, nil},
		{"deletions", func(w *admissionv1.ValidatingWebhook) {
			rule(w).Operations = []admissionv1.OperationType{admissionv1.Delete}
		}, nil},
		{"it fails open", func(w *admissionv1.ValidatingWebhook) { w.FailurePolicy = &ignore }, nil},
		{"not kube-system", func(w *admissionv1.ValidatingWebhook) { w.NamespaceSelector = outside }, nil},
		{"not kube-system, but Nodes have no namespace", func(w *admissionv1.ValidatingWebhook) {
			w.NamespaceSelector, rule(w).Resources = outside, []string{"nodes", "pods"}
		}, []string{"nodes"}},
		{"not namespaces with a label, which kube-system has", func(w *admissionv1.ValidatingWebhook) {
			w.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
				Key: "admission.gatekeeper.sh/ignore", Operator: metav1.LabelSelectorOpDoesNotExist,
			}}}
		}, nil},
		{"objects with a label only", func(w *admissionv1.ValidatingWebhook) {
			w.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}, nil},
		{"under a condition", func(w *admissionv1.ValidatingWebhook) { w.MatchConditions = []admissionv1.MatchCondition{{Name: "x"}} }, nil},
		{"outside of the cluster", func(w *admissionv1.ValidatingWebhook) { w.ClientConfig.Service = nil }, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := admissionv1.ValidatingWebhook{Name: "p.example.org", Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, Resources: []string{"pods"}},
			}}}
			w.ClientConfig.Service = &admissionv1.ServiceReference{Namespace: "policy", Name: "policy"}
			tt.change(&w)
			system := func() labels.Set {
				return labels.Set{"kubernetes.io/metadata.name": "kube-system", "admission.gatekeeper.sh/ignore": "no-self-managing"}
			}
			got := validating(&admissionv1.ValidatingWebhookConfiguration{Webhooks: []admissionv1.ValidatingWebhook{w}}, system)
			if len(got) > 1 || (len(got) == 1) != (tt.want != nil) || len(got) == 1 && !slices.Equal(got[0].Guards, tt.want) {
				t.Errorf("got %+v, want %v", got, tt.want)
			}
		})
	}
}

// A webhook about everything that hangs holds up reviews and dry runs of writes as well: it is found in a time in which these end.
func TestGather_AllHangs(t *testing.T) {
	objects := map[string]string{
		"/api/v1/nodes": `{"kind": "NodeList", "apiVersion": "v1", "items": [{"metadata": {"name": "cp1"}}]}`,
		"/api/v1/namespaces/kube-system/configmaps/kubeadm-config": `{"kind": "ConfigMap", "apiVersion": "v1", "data": {"ClusterConfiguration": ` +
			`"apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n"}}`,
		"/api/v1/namespaces/kube-system/configmaps/kube-root-ca.crt": `{"kind": "ConfigMap", "apiVersion": "v1"}`,
		"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations": `{"kind": "MutatingWebhookConfigurationList",
			"apiVersion": "admissionregistration.k8s.io/v1", "items": [{"metadata": {"name": "all"}, "webhooks": [{"name": "all.example.org",
			"clientConfig": {"url": "https://192.0.2.1/"}, "sideEffects": "None", "rules": [{"operations": ["*"], "apiGroups": ["*"],
			"apiVersions": ["*"], "resources": ["*/*"]}]}]}]}`,
	}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not learn that the client is gone
		if r.Method != http.MethodGet {
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if text := objects[r.URL.Path]; text != "" {
			_, _ = io.WriteString(w, text)
			return
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`)
	}))
	t.Cleanup(h.Close)
	config := &rest.Config{Host: h.URL, QPS: -1}
	config.ContentType = "application/json"
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	s, err := Gather(ctx, kubernetes.NewForConfigOrDie(config))
	if err != nil {
		t.Fatal(err)
	}
	found := unansweredCalls(s)
	if len(found) != 1 || found[0].ID != finding.CalloutFails || found[0].Object != "MutatingWebhookConfiguration/all" {
		t.Errorf("got %+v, not seen %v", found, s.NotSeen)
	}
}

// The remedy is about one webhook of a configuration, and leaves it there. Labels of kube-system are not asked for where none counts.
func TestBlocked_Remedy(t *testing.T) {
	w := func(name string) admissionv1.MutatingWebhook {
		w := admissionv1.MutatingWebhook{Name: name, NamespaceSelector: &metav1.LabelSelector{}, Rules: []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, Resources: []string{"pods"}},
		}}}
		w.ClientConfig.Service = &admissionv1.ServiceReference{Namespace: "policy", Name: "policy"}
		return w
	}
	c := &admissionv1.MutatingWebhookConfiguration{Webhooks: []admissionv1.MutatingWebhook{w("a.example.org"), w("b.example.org")}}
	c.Name, c.Webhooks[0].FailurePolicy = "policy", new(admissionv1.Ignore)
	s := &Snapshot{Webhooks: mutating(c, nil)}
	for i := range s.Webhooks {
		s.Webhooks[i].Ready = 0
	}
	list := blocked(s)
	const want = `start its pods; or, until they run: kubectl patch mutatingwebhookconfiguration/policy --type=json -p ` +
		`'[{"op":"test","path":"/webhooks/1/name","value":"b.example.org"},{"op":"replace","path":"/webhooks/1/failurePolicy","value":"Ignore"},` +
		`{"op":"replace","path":"/webhooks/1/timeoutSeconds","value":1}]'`
	if len(list) != 1 || list[0].Next != want {
		t.Errorf("got %+v, want %s", list, want)
	}
}

// Webhooks of one configuration are one finding, whichever list has them: a remedy about the first alone would change nothing.
func TestDiagnose_WebhooksOfOneConfiguration(t *testing.T) {
	const object = "ValidatingWebhookConfiguration/policy"
	s := newSnapshot(templates.Deployment, 2, webhook(0))
	s.Webhooks = append(s.Webhooks, s.Webhooks[0])
	s.Webhooks[1].Index, s.Webhooks[1].Name, s.Webhooks[1].Guards = 1, "nodes.example.org", []string{"nodes"}
	s.Webhooks = append(s.Webhooks, s.Webhooks[0])
	s.Webhooks[2].Index, s.Webhooks[2].Name = 3, `x","value":"y`
	s.Callouts = []callouts.Callout{
		{Object: object, Name: "pods.example.org", Closed: true, Guards: []string{"pods"}, Namespace: "policy", Service: "policy"},
		{Object: object, Name: "shop.example.org", Index: 2, Closed: true, Guards: []string{"pods"}, Namespaces: []string{"shop"}, Service: "policy"},
	}
	list := Diagnose(s).Findings()
	if len(list) != 1 || list[0].ID != finding.WebhookBlocks || strings.Contains(list[0].Next, "value\":\"y") {
		t.Fatalf("got %+v", list)
	}
	for i := range 3 {
		if command := fmt.Sprintf(`"/webhooks/%d/failurePolicy"`, i); strings.Count(list[0].Next, command) != 1 {
			t.Errorf("%s: not once in %s", command, list[0].Next)
		}
	}
	v := newView(s)
	if explains := byGuards(v, &list[0], nil); !slices.Contains(explains, finding.NotServed) {
		t.Errorf("what the second one guards is not counted: %v", explains)
	}
}
