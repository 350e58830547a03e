package diagnosis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/templates"
)

// lab writes a snapshot's objects into a real API server.
type lab struct {
	testing.TB
	kubernetes.Interface
}

func newLab(t testing.TB) lab {
	t.Helper()
	l := lab{t, client(cluster.Config, nil)}
	t.Cleanup(l.empty)
	return l
}

func (l lab) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

func (l lab) empty() {
	ctx, now := context.WithoutCancel(l.Context()), metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
	var all metav1.ListOptions
	for _, err := range []error{
		l.CoreV1().Nodes().DeleteCollection(ctx, now, all),
		l.CoreV1().Pods(v1alpha1.Namespace).DeleteCollection(ctx, now, all),
		l.CoordinationV1().Leases(v1alpha1.Namespace).DeleteCollection(ctx, now, all),
		l.CoordinationV1().Leases(corev1.NamespaceNodeLease).DeleteCollection(ctx, now, all),
		l.AppsV1().Deployments(v1alpha1.Namespace).DeleteCollection(ctx, now, all),
		l.AdmissionregistrationV1().ValidatingWebhookConfigurations().DeleteCollection(ctx, now, all),
	} {
		if err != nil && !apierrors.IsNotFound(err) {
			l.Error(err)
		}
	}
}

// write makes the cluster be as the snapshot, with times of now.
func (l lab) write(s *Snapshot) {
	l.Helper()
	ctx := l.Context()
	late := time.Since(taken)
	for i := range s.Nodes {
		n := s.Nodes[i].DeepCopy()
		made, err := l.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
		l.must(err)
		made.Status, made.Spec.Taints = s.Nodes[i].Status, s.Nodes[i].Spec.Taints // admission adds not-ready
		made, err = l.CoreV1().Nodes().Update(ctx, made, metav1.UpdateOptions{})
		l.must(err)
		made.Status = s.Nodes[i].Status
		_, err = l.CoreV1().Nodes().UpdateStatus(ctx, made, metav1.UpdateOptions{})
		l.must(err)
	}
	for _, x := range slices.Concat(s.Heartbeats, s.Leases) {
		x.Spec.RenewTime.Time = x.Spec.RenewTime.Add(late)
		_, err := l.CoordinationV1().Leases(x.Namespace).Create(ctx, &x, metav1.CreateOptions{})
		l.must(err)
	}
	for _, d := range s.Deployments {
		labels := map[string]string{"app": "ccm"}
		d.Spec.Selector, d.Spec.Template.Labels = &metav1.LabelSelector{MatchLabels: labels}, labels
		_, err := l.AppsV1().Deployments(d.Namespace).Create(ctx, &d, metav1.CreateOptions{})
		l.must(err)
	}
	for _, p := range s.Pods {
		status := p.Status
		p.OwnerReferences = nil // of what has no UID
		p.Spec.ServiceAccountName = "default"
		made, err := l.CoreV1().Pods(p.Namespace).Create(ctx, &p, metav1.CreateOptions{})
		l.must(err)
		made.Status = status
		_, err = l.CoreV1().Pods(p.Namespace).UpdateStatus(ctx, made, metav1.UpdateOptions{})
		l.must(err)
	}
}

// account makes the ServiceAccount of the tests' manager, which may do everything.
func (l lab) account() {
	l.Helper()
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: v1alpha1.Namespace}}
	if _, err := l.CoreV1().ServiceAccounts(v1alpha1.Namespace).Create(l.Context(), sa, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		l.must(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "test:ccm"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "default", Namespace: v1alpha1.Namespace}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}
	if _, err := l.RbacV1().ClusterRoleBindings().Create(l.Context(), binding, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		l.must(err)
	}
	l.may("system:serviceaccount:"+sa.Namespace+":"+sa.Name, &authorizationv1.ResourceAttributes{Verb: "delete", Resource: "nodes"})
}

// may waits until the API server's authorizer knows that a user may do something.
func (l lab) may(user string, what *authorizationv1.ResourceAttributes) {
	l.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: what}}
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		answer, err := l.AuthorizationV1().SubjectAccessReviews().Create(l.Context(), review, metav1.CreateOptions{})
		l.must(err)
		if answer.Status.Allowed {
			return
		} else if time.Since(began) > time.Minute {
			l.Fatalf("user %s may not do it: %s", user, answer.Status.Reason)
		}
	}
}

func (l lab) look(c kubernetes.Interface) *Snapshot {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), 2*time.Minute)
	defer cancel()
	s, err := Gather(ctx, c)
	l.must(err)
	return s
}

// fresh has the manager's Lease last as long as a test may take.
func fresh(s *Snapshot) { s.Leases[0].Spec.LeaseDurationSeconds = new(int32(600)) }

func TestCluster_Gather(t *testing.T) {
	l := newLab(t)
	l.account()
	l.write(newSnapshot(templates.Deployment, 4, fresh, func(s *Snapshot) { s.Deployments = nil }))
	s := l.look(l)
	d := Diagnose(s)
	if len(d.Causes) > 0 || len(d.NotSeen) > 0 || len(d.Nodes) != 5 {
		t.Fatalf("healthy: got %s, not seen %v, %d Nodes", words(d), d.NotSeen, len(d.Nodes))
	}
	fail := admissionv1.Fail
	_, err := l.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "policy"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "p.example.org", FailurePolicy: &fail, AdmissionReviewVersions: []string{"v1"}, SideEffects: new(admissionv1.SideEffectClassNone),
			ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "policy", Name: "policy"}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
		}},
	}, metav1.CreateOptions{})
	l.must(err)
	if got := words(Diagnose(l.look(l))); got != "B7(1)" {
		t.Errorf("a webhook that nobody serves: got %s", got)
	}
	webhooks := l.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	policy, err := webhooks.Get(t.Context(), "policy", metav1.GetOptions{})
	l.must(err)
	for i := range mostWebhooks { // with Services of their own, one more than are looked at
		w := *policy.Webhooks[0].DeepCopy()
		w.Name = fmt.Sprintf("p%d.example.org", i)
		w.ClientConfig.Service.Name = fmt.Sprintf("policy-%d", i)
		policy.Webhooks = append(policy.Webhooks, w, w)
		policy.Webhooks[len(policy.Webhooks)-1].Name = "other-" + w.Name
	}
	_, err = webhooks.Update(t.Context(), policy, metav1.UpdateOptions{})
	l.must(err)
	s = l.look(l)
	looked := slices.DeleteFunc(slices.Clone(s.Webhooks), func(w Webhook) bool { return w.Ready < 0 })
	if len(s.Webhooks)-len(looked) != 2 || s.notSeen("endpoints of 1 Service of webhooks") == nil {
		t.Errorf("%d of %d webhooks looked at, not seen %v", len(looked), len(s.Webhooks), s.NotSeen)
	}
}

// What may not be seen is said, and is not taken for what is not there.
func TestCluster_Gather_PartOfThePermissions(t *testing.T) {
	l := newLab(t)
	l.write(newSnapshot(templates.Deployment, 2, fresh))
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "test:nodes"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list"}}},
	}
	_, err := l.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{})
	l.must(err)
	_, err = l.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: role.ObjectMeta, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "viewer"}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
	}, metav1.CreateOptions{})
	l.must(err)
	l.may("viewer", &authorizationv1.ResourceAttributes{Verb: "list", Resource: "nodes"})
	for user, wantNodes := range map[string]int{"viewer": 3, "nobody": 0} {
		config, err := cluster.User(user)
		l.must(err)
		d := Diagnose(l.look(client(config, nil)))
		if len(d.Nodes) != wantNodes || !d.Blind() || slices.Contains(d.Unread(), partNodes) != (wantNodes == 0) {
			t.Errorf("%s: got %d Nodes, not seen %v", user, len(d.Nodes), d.NotSeen)
		}
		if got := words(d); got != "W15(1)" && wantNodes > 0 || strings.Contains(got, "W20") {
			t.Errorf("%s: got %s, want no more than that the Lease was not seen", user, got)
		}
		if len(d.NotSeen) < 8 || d.NotLooked["webhooks"] == "" {
			t.Errorf("%s: not seen %v, not looked for %v", user, d.NotSeen, d.NotLooked)
		}
	}
}

// A configuration that could not be read is not one that cannot be used.
func TestCluster_Gather_ConfigurationNotSeen(t *testing.T) {
	l := newLab(t)
	made, err := l.CoreV1().ConfigMaps(v1alpha1.Namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "kubeadm-config"},
		Data:       map[string]string{"ClusterConfiguration": "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n"},
	}, metav1.CreateOptions{})
	l.must(err)
	t.Cleanup(func() {
		if err := l.CoreV1().ConfigMaps(made.Namespace).Delete(context.WithoutCancel(t.Context()), made.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "test:kubeadm", Namespace: v1alpha1.Namespace},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{made.Name}, Verbs: []string{"get"}}},
	}
	_, err = l.RbacV1().Roles(role.Namespace).Create(t.Context(), role, metav1.CreateOptions{})
	l.must(err)
	_, err = l.RbacV1().RoleBindings(role.Namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: role.ObjectMeta, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "reader"}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
	}, metav1.CreateOptions{})
	l.must(err)
	l.may("reader", &authorizationv1.ResourceAttributes{
		Verb: "get", Resource: "configmaps", Name: made.Name, Namespace: v1alpha1.Namespace,
	})
	config, err := cluster.User("reader")
	l.must(err)
	s := l.look(client(config, nil))
	if s.Kubeadm == "" || len(s.Configurations) > 0 || s.notSeen(partKubelet) == nil {
		t.Errorf("kubeadm's configuration %q, judged %+v, not seen %v", s.Kubeadm, s.Configurations, s.NotSeen)
	}
}

// An API server that is gone, or does not answer, is no cluster without faults.
func TestGather_NoAnswer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() }) // it accepts, and says nothing
	for _, host := range []string{"https://127.0.0.1:1", "https://" + listener.Addr().String()} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		start := time.Now()
		_, err := Gather(ctx, client(&rest.Config{Host: host}, nil))
		cancel()
		var unseen *NotSeen
		if err == nil || !errors.As(err, &unseen) || time.Since(start) > 20*time.Second {
			t.Errorf("%s: got %v after %s", host, err, time.Since(start))
		}
	}
}
