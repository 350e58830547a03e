package balancer

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// The guide's policy keeps the ports of Nodes from those who may create Services, where nothing else is said.
func TestCluster_GuidePolicy(t *testing.T) {
	c := newCluster(t)
	policy, binding := guidePolicy(t)
	admission := c.client.AdmissionregistrationV1()
	policies, bindings := admission.ValidatingAdmissionPolicies(), admission.ValidatingAdmissionPolicyBindings()
	if _, err := policies.Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := bindings.Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	allowed := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "edge", Labels: map[string]string{"allow-ports-of-nodes": ""},
	}}
	if _, err := c.client.CoreV1().Namespaces().Create(t.Context(), allowed, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		for _, err := range []error{
			bindings.Delete(ctx, binding.Name, metav1.DeleteOptions{}),
			policies.Delete(ctx, policy.Name, metav1.DeleteOptions{}),
			c.client.CoreV1().Services("edge").Delete(ctx, "ssh", metav1.DeleteOptions{}),
		} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	ssh := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "ssh", Annotations: map[string]string{v1alpha1.PortsAnnotation: "any"}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 22}}},
	}
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
		_, err := c.client.CoreV1().Services("default").Create(t.Context(), ssh, dry)
		if apierrors.IsInvalid(err) && strings.Contains(err.Error(), "no-ports-of-nodes") {
			break
		}
		if time.Since(began) > 20*time.Second {
			t.Fatalf("the policy lets it through: %v", err)
		}
	}
	c.create("web") // others are not disturbed, nor is what the provider writes
	c.within(5*time.Second, "web", hasAddress("198.18.0.1"))
	if _, err := c.client.CoreV1().Services("edge").Create(t.Context(), ssh, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
}

// guidePolicy reads the guide.
func guidePolicy(t *testing.T) (*admissionv1.ValidatingAdmissionPolicy, *admissionv1.ValidatingAdmissionPolicyBinding) {
	t.Helper()
	guide, err := os.ReadFile("../../docs/guide-load-balancers.md")
	if err != nil {
		t.Fatal(err)
	}
	policy, binding := &admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{}
	_, text, _ := strings.Cut(string(guide), "```yaml\napiVersion: admissionregistration.k8s.io/v1")
	text, _, _ = strings.Cut(text, "```")
	first, second, _ := strings.Cut(text, "\n---\n")
	for document, into := range map[string]any{first: policy, second: binding} {
		if err := yaml.Unmarshal([]byte(document), into); err != nil {
			t.Fatalf("%v:\n%s", err, document)
		}
	}
	return policy, binding
}
