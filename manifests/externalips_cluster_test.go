package manifests_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/manifests/apply"
	"github.com/ccmadm/ccmadm/manifests/manifeststest"
	"github.com/ccmadm/ccmadm/templates"
)

// A tenant gets no externalIPs: neither with a new Service nor by an edit. What a Service has it keeps, and a Namespace
// with the label has no limit.
func TestCluster_ExternalIPsPolicy(t *testing.T) {
	p, err := templates.Load("onprem")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := manifests.RBAC(p, manifeststest.Values(p, p.Modes[0], "v1.36.0", true))
	if err != nil {
		t.Fatal(err)
	}
	all := kubernetes.NewForConfigOrDie(cluster.Config)
	for name, labels := range map[string]map[string]string{"fenced": nil, "open": {v1alpha1.ExternalIPsLabel: "allow"}} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
		if _, err := all.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	with := func(name string, ips ...string) *corev1.Service {
		return &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 6443}}, ExternalIPs: ips},
		}
	}
	fenced, open := all.CoreV1().Services("fenced"), all.CoreV1().Services("open")
	bindings := all.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	_ = bindings.Delete(t.Context(), v1alpha1.ExternalIPsPolicyName, metav1.DeleteOptions{})
	older := with("older", "192.0.2.1")
	err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			_, err := fenced.Create(ctx, older, metav1.CreateOptions{})
			return err == nil, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	applier, err := apply.NewCluster(cluster.Config, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := applier.Apply(t.Context(), apply.RBAC, objects); err != nil {
		t.Fatal(err)
	}
	dry := metav1.CreateOptions{DryRun: []string{"All"}}
	var refusal error
	denied := func(ctx context.Context) (bool, error) {
		_, err := fenced.Create(ctx, with("young", "192.0.2.240"), dry)
		refusal = err
		return err != nil && strings.Contains(err.Error(), "192.0.2.240: denied unless"), nil
	}
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, denied); err != nil {
		t.Fatal("a new Service gets externalIPs")
	}
	for _, want := range []string{v1alpha1.ExternalIPsLabel + "=allow", v1alpha1.AddressesAnnotation, "spec.infrastructure.annotations"} {
		if !strings.Contains(refusal.Error(), want) {
			t.Errorf("the refusal does not name %s: %v", want, refusal)
		}
	}
	if _, err := fenced.Create(t.Context(), with("plain"), dry); err != nil {
		t.Errorf("a Service without externalIPs: %v", err)
	}
	if _, err := open.Create(t.Context(), with("young", "192.0.2.240"), dry); err != nil {
		t.Errorf("a Namespace that permits them: %v", err)
	}
	for patch, want := range map[string]bool{
		`{"metadata":{"labels":{"a":"b"}}}`:                           true,
		`{"spec":{"externalIPs":null}}`:                               true,
		`{"spec":{"externalIPs":["192.0.2.240"]}}`:                    false,
		`{"spec":{"externalIPs":["192.0.2.1","2001:db8::240"]}}`:      false,
		`{"spec":{"type":"LoadBalancer","externalIPs":["10.0.0.1"]}}`: false,
	} {
		_, err := fenced.Patch(t.Context(), "older", types.MergePatchType, []byte(patch), metav1.PatchOptions{DryRun: []string{"All"}})
		if (err == nil) != want {
			t.Errorf("%s: %v", patch, err)
		}
	}
}
