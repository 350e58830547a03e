package nodes

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/templates"
)

// What the API server of 1.36 and our own manager wrote when the permission was missing.
func TestRefusedInLog(t *testing.T) {
	const static, account = v1alpha1.StaticPodUser, "system:serviceaccount:kube-system:acme"
	tests := []struct {
		name  string
		lines []string
		want  []string
	}{
		{
			name: "our manager waits",
			lines: []string{
				`I1121 21:00:09.000000       1 permissions.go:66] "Waiting for the API server" missing="permission to list nodes"`,
				`I1121 21:01:09.000000       1 permissions.go:66] "Waiting for the API server" missing="permission to list nodes"`,
			},
			want: []string{": list nodes"},
		},
		{
			name: "our manager waits, for the Lease and for a subresource",
			lines: []string{
				`"Waiting for the API server" missing="permission to update leases.coordination.k8s.io in namespace kube-system"`,
				`"Waiting for the API server" missing="permission to patch nodes/status"`,
			},
			want: []string{": update leases.coordination.k8s.io in namespace kube-system", ": patch nodes/status"},
		},
		{
			name: "our manager has waited",
			lines: []string{
				`"Waiting for the API server" missing="permission to list nodes"`,
				`"API server answers and grants what is needed" waited="5s"`,
			},
		},
		{
			name: "an informer, in a structured log",
			lines: []string{
				`E1121 reflector.go:204] "Failed to watch" err="failed to list *v1.Node: nodes is forbidden: User \"` + static +
					`\" cannot list resource \"nodes\" in API group \"\" at the cluster scope" reflector="x" type="*v1.Node"`,
			},
			want: []string{static + ": list nodes"},
		},
		{
			name: "leader election, with the object's name",
			lines: []string{
				`error retrieving resource lock kube-system/acme: leases.coordination.k8s.io "acme" is forbidden: User "` + account +
					`" cannot get resource "leases" in API group "coordination.k8s.io" in the namespace "kube-system"`,
			},
			want: []string{account + ": get leases.coordination.k8s.io in namespace kube-system"},
		},
		{
			name: "a subresource",
			lines: []string{
				`nodes "w1" is forbidden: User "` + account + `" cannot patch resource "nodes/status" in API group "" at the cluster scope`,
			},
			want: []string{account + ": patch nodes/status"},
		},
		{
			name:  "a refusal of the cloud's",
			lines: []string{"E1121 403 Forbidden: you may not list servers"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, r := range refusedInLog(tt.lines) {
				got = append(got, r.who.name+": "+r.String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
		})
	}
}

// Each verb of the rendered ClusterRole and Role is taken away, one by one, from a manager whose log cannot be read:
// the API server itself is asked.
func TestCluster_MissingPermission(t *testing.T) {
	l := newLab(t)
	l.register(newNode("cp1"))
	l.register(newNode("w1", tainted, unresolved))
	l.run(newPod(func(p *corev1.Pod) { p.Spec.ServiceAccountName = "acme" }))
	rules := rendered(t)
	want := map[string]finding.ID{
		"nodes list": "D13", "nodes watch": "D13", "nodes get": "D13", "nodes update": "D8", "nodes patch": "D8",
		"nodes/status patch": "D8", "leases create": "D6", "leases get": "D6", "leases update": "D6",
		"events create": "D10", "events patch": "D10",
	}
	for name, id := range want {
		t.Run(name, func(t *testing.T) {
			resource, verb, _ := strings.Cut(name, " ")
			led := !strings.HasPrefix(name, "nodes list") && !strings.HasPrefix(name, "nodes watch") && resource != "leases"
			if led {
				l.lead("cp1_1234", 15)
				defer l.unlead()
			}
			without, found := take(rules, resource, verb)
			if !found {
				t.Fatalf("the rendered rules have no %s", name)
			}
			l.grant(without)
			report, err := Observe(t.Context(), l, "", []string{"w1"})
			if err != nil {
				t.Fatal(err)
			}
			cause := report.Nodes[0].Cause
			if cause == nil || cause.ID != id || cause.Reason != "MissingPermission" ||
				!strings.Contains(cause.Message, "may not "+verb+" "+resource) {
				t.Errorf("got %+v, want %s that names %s", cause, id, name)
			}
		})
	}
	t.Run("all granted", func(t *testing.T) {
		l.grant(rules)
		report, err := Observe(t.Context(), l, "", []string{"w1"})
		if err != nil {
			t.Fatal(err)
		}
		if cause := report.Nodes[0].Cause; cause.Reason != "NoLeader" {
			t.Errorf("got %+v, want that nobody leads", cause)
		}
	})
}

// A log's word is checked: what was refused once, and is granted now, is no cause. Who may not ask believes the log.
func TestCluster_MissingPermission_InLog(t *testing.T) {
	l := newLab(t)
	lines := []string{
		`secrets "x" is forbidden: User "system:serviceaccount:kube-system:acme" cannot get resource "secrets" in API group "" ` +
			`in the namespace "kube-system"`,
	}
	e := &evidence{
		pods: []corev1.Pod{newPod()}, leader: leadership{name: v1alpha1.LeaseName},
		logs: map[string][]string{"cloud-controller-manager-cp1": lines},
	}
	nobody, err := cluster.User("nobody")
	l.must(err)
	denied := func(c kubernetes.Interface) string { return fmt.Sprint(e.deniedBy(e.review(t.Context(), c))) }
	l.grant(nil)
	for name, c := range map[string]kubernetes.Interface{"an administrator": l, "nobody": kubernetes.NewForConfigOrDie(nobody)} {
		if got, want := denied(c), "[get secrets in namespace kube-system]"; got != want {
			t.Errorf("%s asks: got %s, want %s", name, got, want)
		}
	}
	l.grant([]rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}})
	if got := denied(l); got != "[]" {
		t.Errorf("granted meanwhile: got %s", got)
	}
}

// rendered are the rules that ccmadm grants to its own manager.
func rendered(t *testing.T) []rbacv1.PolicyRule {
	t.Helper()
	data, err := os.ReadFile("../../manifests/core.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var core []templates.Rule
	if err := yaml.UnmarshalStrict(data, &core); err != nil {
		t.Fatal(err)
	}
	var rules []rbacv1.PolicyRule
	for _, r := range core {
		if r.When == "" {
			rules = append(rules, rbacv1.PolicyRule{APIGroups: r.APIGroups, Resources: r.Resources, Verbs: r.Verbs})
		}
	}
	return rules
}

// take returns the rules without one verb on a resource.
func take(rules []rbacv1.PolicyRule, resource, verb string) (without []rbacv1.PolicyRule, found bool) {
	for _, r := range rules {
		if slices.Contains(r.Resources, resource) && slices.Contains(r.Verbs, verb) {
			found = true
			r.Verbs = slices.DeleteFunc(slices.Clone(r.Verbs), func(v string) bool { return v == verb })
		}
		if len(r.Verbs) > 0 {
			without = append(without, r)
		}
	}
	return without, found
}

// grant gives ServiceAccount/acme these rules and no others, in the whole cluster.
func (l lab) grant(rules []rbacv1.PolicyRule) {
	const account = "acme"
	l.Helper()
	roles, bindings := l.RbacV1().ClusterRoles(), l.RbacV1().ClusterRoleBindings()
	meta := metav1.ObjectMeta{Name: "test:" + account}
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
	_, err := roles.Update(
		l.Context(),
		&rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules},
		metav1.UpdateOptions{},
	) // makes one, too
	l.must(err)
	_, err = bindings.Create(l.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: v1alpha1.Namespace}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
	}, metav1.CreateOptions{})
	if err == nil {
		l.Cleanup(func() {
			ctx := context.WithoutCancel(l.Context())
			l.must(roles.Delete(ctx, meta.Name, now))
			l.must(bindings.Delete(ctx, meta.Name, now))
		})
	} else if !apierrors.IsAlreadyExists(err) {
		l.Fatal(err)
	}
	l.settle(rules)
}

// settle waits until the authorizer has seen the rules: it has a cache.
func (l lab) settle(rules []rbacv1.PolicyRule) {
	l.Helper()
	ctx := within(l.T, 20*time.Second)
	who := serviceAccount(v1alpha1.Namespace, "acme")
	for _, p := range append(needed(&leadership{name: v1alpha1.LeaseName}), permission{verb: "get", resource: "secrets"}) {
		resource := strings.TrimSuffix(p.resource+"/"+p.subresource, "/")
		want := no
		if slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
			return slices.Contains(r.Resources, resource) && slices.Contains(r.Verbs, p.verb)
		}) {
			want = yes
		}
		for ask(ctx, l, question(who, p)) != want {
			if ctx.Err() != nil {
				l.Fatalf("%s: the API server does not say %v", p, want)
			}
		}
	}
}

func (l lab) unlead() {
	l.Helper()
	l.must(l.CoordinationV1().Leases(v1alpha1.Namespace).Delete(l.Context(), v1alpha1.LeaseName, metav1.DeleteOptions{}))
}
