package callouts

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// TestCluster_Try: a real API server accepts the dry run of each kind, and the one that nothing answers is found by its webhook.
func TestCluster_Try(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(cluster.Config)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "callouts-"}}
	namespace, err := client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := client.CoreV1().ServiceAccounts(namespace.Name).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c := &Collector{}
	for _, k := range kinds("") {
		one := c.request(&k, admissionv1.Create, namespace.Name, nil)
		if a := one.ask(t.Context(), client.Discovery().RESTClient(), 5*time.Second); a.err != nil {
			t.Errorf("%s: %v", one.what, a.err)
		}
	}
	deaf, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts, and nothing answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = deaf.Close() })
	config := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "deaf"}}
	config.Webhooks = []admissionv1.ValidatingWebhook{{
		Name: "deaf.example.org", SideEffects: new(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		FailurePolicy: new(admissionv1.Ignore), TimeoutSeconds: new(int32(30)),
		ClientConfig:      admissionv1.WebhookClientConfig{URL: new("https://" + deaf.Addr().String() + "/")},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace.Name}},
		Rules: []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
		}},
	}}
	webhooks := client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	if config, err = webhooks.Create(t.Context(), config, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = webhooks.Delete(context.WithoutCancel(t.Context()), "deaf", metav1.DeleteOptions{}) })
	for began := time.Now(); time.Since(began) < time.Minute; { // until the API server knows it
		c = &Collector{patience: 2 * time.Second}
		c.Validating(config)
		all := newWorld().namespaces
		all[namespace.Name] = namespace.Labels
		c.Namespaces(all)
		if err := c.Try(t.Context(), client.Discovery().RESTClient(), ""); err != nil {
			t.Fatal(err)
		}
		if found := Judge(c.Seen(), func(string, string) bool { return false }); len(found) == 1 && found[0].ID == "Q14" &&
			strings.Contains(found[0].Message, "new pods in namespace "+namespace.Name) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("it was not found: %+v", c.Seen())
}
