package apply

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/templates"
)

const clusterRoleName = "ccmadm:onprem"

// newCluster returns an Applier that leaves nothing behind.
func newCluster(t *testing.T, cfg *rest.Config, force bool) *Cluster {
	t.Helper()
	c, err := NewCluster(cfg, force)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		admin, err := NewCluster(cluster.Config, true)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := admin.Remove(ctx); err != nil {
			t.Error(err)
		}
	})
	return c
}

func rbacObjects(t *testing.T) []*manifests.Object {
	t.Helper()
	list, err := manifests.RBAC(onprem(t), values(templates.StaticPod))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func apply(t *testing.T, a Applier, set Set, objects []*manifests.Object) []Change {
	t.Helper()
	changes, err := a.Apply(t.Context(), set, objects)
	if err != nil {
		t.Fatal(err)
	}
	return changes
}

func changesWith(action string, subjects ...string) []Change {
	var list []Change
	for _, s := range subjects {
		list = append(list, Change{Subject: s, Action: action})
	}
	return list
}

func wantChanges(t *testing.T, want, got []Change) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func rbacSubjects() []string {
	const policy, name = "ValidatingAdmissionPolicy", "/ccmadm:onprem"
	return []string{
		"ClusterRole" + name, "ClusterRoleBinding" + name, "Role/kube-node-lease" + name, "Role/kube-system" + name,
		"RoleBinding/kube-node-lease" + name, "RoleBinding/kube-system" + name, "RoleBinding/kube-system" + name +
			":authentication-reader", policy + "/ccmadm-endpoints", policy + "/ccmadm-external-ips", policy + "/ccmadm-node-ports",
		policy + "Binding/ccmadm-endpoints", policy + "Binding/ccmadm-external-ips", policy + "Binding/ccmadm-node-ports",
		"ConfigMap/kube-system/ccmadm-applied",
	}
}

// versions returns the resourceVersion of each object: any write changes it.
func versions(t *testing.T, objects []*manifests.Object) map[string]string {
	t.Helper()
	manager, err := newManager(cluster.Config, false)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, o := range append(slices.Clone(objects), applied{}.object()) {
		live := o.DeepCopy()
		if err := manager.Client().Get(t.Context(), client.ObjectKeyFromObject(o), live); err == nil {
			found[live.GetKind()+"/"+live.GetName()] = live.GetResourceVersion()
		}
	}
	return found
}

func TestCluster_Apply(t *testing.T) {
	c := newCluster(t, cluster.Config, false)
	wantChanges(t, changesWith("created", rbacSubjects()...), apply(t, c, "rbac", rbacObjects(t)))

	before := versions(t, rbacObjects(t))
	wantChanges(t, changesWith("unchanged", rbacSubjects()...), apply(t, c, "rbac", rbacObjects(t)))
	if diff := cmp.Diff(before, versions(t, rbacObjects(t))); diff != "" {
		t.Errorf("the second run wrote (-before +after):\n%s", diff)
	}
}

func TestCluster_Apply_RepairsDrift(t *testing.T) {
	c := newCluster(t, cluster.Config, false)
	apply(t, c, "rbac", rbacObjects(t))
	api := kubernetes.NewForConfigOrDie(cluster.Config).RbacV1()
	if err := api.Roles(v1alpha1.Namespace).Delete(t.Context(), clusterRoleName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	patch := []byte(`{"metadata":{"labels":{"app.kubernetes.io/managed-by":null}}}`)
	if _, err := api.ClusterRoles().Patch(t.Context(), clusterRoleName, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	want := changesWith("unchanged", rbacSubjects()...)
	want[0].Action, want[3].Action = "configured", "created"
	wantChanges(t, want, apply(t, c, "rbac", rbacObjects(t)))

	role, err := api.ClusterRoles().Get(t.Context(), clusterRoleName, metav1.GetOptions{})
	if err != nil || role.Labels[v1alpha1.ManagedByLabel] != v1alpha1.FieldManager {
		t.Errorf("the label is not back: %v, %v", role.Labels, err)
	}
}

// edit is somebody with `kubectl edit`.
func edit(t *testing.T) {
	t.Helper()
	api := kubernetes.NewForConfigOrDie(cluster.Config).RbacV1()
	role, err := api.ClusterRoles().Get(t.Context(), clusterRoleName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	role.Rules = []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"delete"}}}
	if _, err := api.ClusterRoles().Update(t.Context(), role, metav1.UpdateOptions{FieldManager: "kubectl-edit"}); err != nil {
		t.Fatal(err)
	}
}

func TestCluster_Apply_Conflict(t *testing.T) {
	c := newCluster(t, cluster.Config, false)
	apply(t, c, "rbac", rbacObjects(t))
	edit(t)
	before := versions(t, rbacObjects(t))

	t.Run("is reported, and nothing is written", func(t *testing.T) {
		_, err := c.Apply(t.Context(), "rbac", rbacObjects(t))
		var conflict *ConflictError
		if !errors.As(err, &conflict) {
			t.Fatalf("got error %v, want a conflict", err)
		}
		want := `apply ClusterRole/ccmadm:onprem: conflict with "kubectl-edit" over .rules`
		if diff := cmp.Diff(want, err.Error()); diff != "" {
			t.Errorf("error (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(before, versions(t, rbacObjects(t))); diff != "" {
			t.Errorf("written all the same (-before +after):\n%s", diff)
		}
	})
	t.Run("is won with force", func(t *testing.T) {
		want := changesWith("unchanged", rbacSubjects()...)
		want[0].Action = "configured"
		wantChanges(t, want, apply(t, newCluster(t, cluster.Config, true), "rbac", rbacObjects(t)))
		wantChanges(t, changesWith("unchanged", rbacSubjects()...), apply(t, c, "rbac", rbacObjects(t)))
	})
}

func TestCluster_Apply_Prunes(t *testing.T) {
	c := newCluster(t, cluster.Config, false)
	apply(t, c, "other", mustRecord(t))
	v := values(templates.DaemonSet)
	workload, err := manifests.Addon(onprem(t), v)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, c, "addon", workload)
	v.Mode = templates.Deployment
	if workload, err = manifests.Addon(onprem(t), v); err != nil {
		t.Fatal(err)
	}
	want := []Change{
		{Subject: "Deployment/kube-system/onprem-cloud-controller-manager", Action: "created"},
		{Subject: "DaemonSet/kube-system/onprem-cloud-controller-manager", Action: "deleted"},
		{Subject: "ConfigMap/kube-system/ccmadm-applied", Action: "configured"},
	}
	wantChanges(t, want, apply(t, c, "addon", workload))
	want = []Change{
		{Subject: "Deployment/kube-system/onprem-cloud-controller-manager", Action: "deleted"},
		{Subject: "ConfigMap/kube-system/ccmadm-applied", Action: "configured"},
	}
	wantChanges(t, want, apply(t, c, "addon", nil))
	if got := versions(t, mustRecord(t)); len(got) != 4 {
		t.Errorf("the other set suffered: %v", got)
	}
}

func TestCluster_Remove(t *testing.T) {
	c := newCluster(t, cluster.Config, false)
	apply(t, c, "rbac", rbacObjects(t))
	api := kubernetes.NewForConfigOrDie(cluster.Config).RbacV1()
	adopt := []byte(`{"metadata":{"labels":{"app.kubernetes.io/managed-by":"somebody"}}}`)
	if _, err := api.Roles(v1alpha1.Namespace).Patch(t.Context(), clusterRoleName, types.MergePatchType, adopt, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := c.Remove(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range got {
		want := "deleted"
		if change.Subject == "Role/kube-system/ccmadm:onprem" {
			want = "skipped" // it is somebody else's now
		}
		if change.Action != want {
			t.Errorf("got %q, want %s", change, want)
		}
	}
	left := versions(t, rbacObjects(t))
	if len(left) != 1 || left["Role/ccmadm:onprem"] == "" {
		t.Errorf("left behind: %v", left)
	}
	if got, err = c.Remove(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("the second time: %v, %v", got, err)
	}
	if err := api.Roles(v1alpha1.Namespace).Delete(t.Context(), clusterRoleName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func mustRecord(t *testing.T) []*manifests.Object {
	t.Helper()
	list, err := manifests.Record([]byte("provider: onprem\n"), v1alpha1.LeaseName)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestCluster_Apply_GivesTheLastAnswer(t *testing.T) {
	nobody := rest.CopyConfig(cluster.Config)
	nobody.Host = "https://127.0.0.1:1"
	c, err := NewCluster(nobody, false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = c.Apply(ctx, "rbac", rbacObjects(t))
	if err == nil || !strings.Contains(err.Error(), "connection refused") || !strings.Contains(err.Error(), "gave up after") {
		t.Errorf("got error %v, want the refused connection", err)
	}
}

func BenchmarkCluster_Apply(b *testing.B) {
	p, err := templates.Load("onprem")
	if err != nil {
		b.Fatal(err)
	}
	objects, err := manifests.RBAC(p, values(templates.StaticPod))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() { // each with a client of its own, as a phase has
		c, err := NewCluster(cluster.Config, false)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := c.Apply(b.Context(), "rbac", objects); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if _, err := c.Remove(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
