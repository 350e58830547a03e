package callouts

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
)

// A webhook that fails open is given up after its timeout, and the request served: that it has answered is not shown.
func TestTry_GivenUp(t *testing.T) {
	for name, tt := range map[string]struct {
		policy admissionv1.FailurePolicyType
		takes  time.Duration
		once   bool
		want   string
	}{
		"it hangs":                       {admissionv1.Ignore, 1050 * time.Millisecond, false, "two requests were held up for its timeout of 1 s each, and served without it: new ingresses in namespace shop: each"},
		"it was slow once":               {admissionv1.Ignore, 1050 * time.Millisecond, true, ""},
		"it answers":                     {admissionv1.Ignore, 50 * time.Millisecond, false, ""},
		"it fails closed, and is served": {admissionv1.Fail, 1050 * time.Millisecond, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.patience = 4 * time.Second
			w.validating.FailurePolicy, w.validating.TimeoutSeconds = new(tt.policy), new(int32(1))
			asked := 0
			w.answer = func(r *http.Request, _ string) (int, string) {
				if strings.Contains(r.URL.Path, "shop/ingresses") {
					if asked++; asked == 1 || !tt.once {
						time.Sleep(tt.takes)
					}
				}
				return http.StatusOK, ""
			}
			found, err := w.look(t)
			if err != nil || (len(found) == 1) != (tt.want != "") {
				t.Fatalf("got %+v, %v", found, err)
			}
			if tt.want != "" && (found[0].ID != "Q14" || found[0].Object != "ValidatingWebhookConfiguration/gate" || !strings.Contains(found[0].Message, tt.want)) {
				t.Errorf("got %+v, want %s", found[0], tt.want)
			}
		})
	}
}

// A request was slow that surely asks a webhook that fails closed, and perhaps one that fails open, which has answered elsewhere if it was
// asked there: which of both it was is not known.
func TestTry_SlowOrGivenUp(t *testing.T) {
	w := newWorld()
	w.patience = 4 * time.Second
	w.mutating.FailurePolicy, w.mutating.TimeoutSeconds = new(admissionv1.Ignore), new(int32(1))
	w.mutating.MatchConditions = []admissionv1.MatchCondition{{Name: "x", Expression: "true"}}
	w.answer = func(r *http.Request, _ string) (int, string) {
		if strings.Contains(r.URL.Path, "shop/ingresses") {
			time.Sleep(1050 * time.Millisecond)
		}
		return http.StatusOK, ""
	}
	found, err := w.look(t)
	if err != nil || len(found) != 1 {
		t.Fatalf("got %+v, %v", found, err)
	}
	const want = "two requests took 1 s or longer each, and were served: new ingresses in namespace shop (it answers slowly, or the API " +
		"server may have asked inject.example.org as well and did not wait longer, or the API server or etcd is slow)"
	f := found[0]
	if f.ID != "Q14" || f.Object != "ValidatingWebhookConfiguration/gate" || !strings.Contains(f.Message, want) {
		t.Errorf("got %+v, want %s", f, want)
	}
	if f.Next != "see which of them answers: "+lookAtAll {
		t.Errorf("it is to be disarmed: %s", f.Next)
	}
}

// Where several webhooks may be why, none is disarmed; where one has answered as far as is known, the other is.
func TestTry_Remedies(t *testing.T) {
	w := newWorld()
	hangs("shop/ingresses")(w)
	w.mutating.Rules, w.mutating.NamespaceSelector = w.validating.Rules, w.validating.NamespaceSelector
	found, err := w.look(t)
	if err != nil || len(found) != 2 {
		t.Fatalf("got %+v, %v", found, err)
	}
	for _, f := range found {
		if f.Next != "see which of them answers: "+lookAtAll || !strings.Contains(f.Message, "about which 2 webhooks are asked") {
			t.Errorf("by one of two: %+v", f)
		}
	}
	w = newWorld()
	hangs("shop/ingresses")(w)
	w.mutating.MatchConditions = []admissionv1.MatchCondition{{Name: "x", Expression: "true"}}
	if found, err = w.look(t); err != nil || len(found) != 1 || !strings.Contains(found[0].Next, "kubectl patch validatingwebhookconfiguration/gate") {
		t.Errorf("by one that was not seen to answer: %+v, %v", found, err)
	}
}

// Of kinds that one Service converts there is not room for a request for each. What is wrong with the way to it is said of those, too.
func TestTry_ManyConversions(t *testing.T) {
	post := `conversion webhook for example.org/v1, Kind=Toy failed: Post "https://convert.hooks.svc:443/?timeout=30s": `
	many := func(w *world, replace ...string) {
		for i := range mostTries {
			replace := append([]string{"toys", fmt.Sprintf("kind%d", i)}, replace...)
			w.definition += "," + strings.NewReplacer(replace...).Replace(newWorld().definition)
		}
	}
	const left = "3 webhooks not asked: no more than 16 requests are sent"
	for name, tt := range map[string]struct {
		change func(*world)
		find   int
		err    string
		words  string // of each finding but the first
	}{
		"it hangs": {func(w *world) { many(w); hangs("v1beta1/toys")(w) }, 4, "", "its Service did not answer for CustomResourceDefinition/toys.example.org, and was not asked for this one: two"},
		"nothing listens": {func(w *world) {
			many(w)
			answers(500, post+"dial tcp 10.96.0.7:443: connect: connection refused", "v1beta1/toys")(w)
		}, 4, "", "was not asked for this one"},
		"its certificate is another's": {func(w *world) {
			many(w)
			answers(500, post+"tls: failed to verify certificate: x509: unknown authority", "v1beta1/toys")(w)
		}, 1, left, ""},
		"another port hangs":            {func(w *world) { onPort(w); many(w, `"convert"`, `"convert", "port": 8443`); hangs("v1beta1/toys")(w) }, 1, left, ""},
		"no list has an object":         {func(w *world) { many(w) }, 0, left, ""},
		"a list of another has objects": {func(w *world) { many(w); answers(200, `{"items": [{}]}`, "v1beta1/kind3")(w) }, 0, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			tt.change(w)
			found, err := w.look(t)
			if len(found) != tt.find || (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
				t.Fatalf("%d findings, %v, want %d, %q: %+v", len(found), err, tt.find, tt.err, found)
			}
			for _, f := range found {
				if f.Object != "CustomResourceDefinition/toys.example.org" && !strings.Contains(f.Message, tt.words) {
					t.Errorf("got %+v", f)
				}
			}
		})
	}
	w := newWorld()
	for i := range mostTries { // each by a Service of its own
		name := fmt.Sprintf("convert%d", i)
		w.services[name], w.ready[name] = w.services["convert"].DeepCopy(), 1
		w.services[name].Name = name
		w.definition += "," + strings.NewReplacer("toys", fmt.Sprintf("kind%d", i), `"convert"`, `"`+name+`"`).Replace(newWorld().definition)
	}
	if found, err := w.look(t); len(found) > 0 || err == nil || err.Error() != left {
		t.Errorf("by many: got %+v, %v, want %s", found, err, left)
	}
}

func onPort(w *world) {
	w.services["convert"].Spec.Ports = append(w.services["convert"].Spec.Ports, corev1.ServicePort{Port: 8443})
}

// That the time ends while the API server is asked something else does not show that it does not answer.
func TestTry_Ends(t *testing.T) {
	w := newWorld()
	w.answer = func(r *http.Request, _ string) (int, string) {
		if strings.Contains(r.URL.Path, "kube-system/configmaps") {
			w.ends()
		}
		return 0, ""
	}
	if found, err := w.look(t); len(found) > 0 || !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "other requests") {
		t.Errorf("got %+v, %v", found, err)
	}
}
