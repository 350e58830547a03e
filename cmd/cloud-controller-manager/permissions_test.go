package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// clusterRules and namespaceRules are all that the command needs without an
// inventory, and without a Service of type LoadBalancer.
func clusterRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "watch", "update"}},
		{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create"}},
		readable("", "services"), readable("", "namespaces"), readable("discovery.k8s.io", "endpointslices"),
		readable("networking.k8s.io", "ipaddresses"), readable("networking.k8s.io", "servicecidrs"),
		readable("ccmadm.dev", "addresspools"), readable("ccmadm.dev", "bgppeers"), readable("ccmadm.dev", "nodeagents"),
		readable("ccmadm.dev", "nodeagentleases"), readable("ccmadm.dev", "nodeannouncements"),
	}
}

func readable(group, resource string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{"list", "watch"}}
}

func namespaceRules(lease string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create"}},
		{
			APIGroups:     []string{"coordination.k8s.io"},
			Resources:     []string{"leases"},
			ResourceNames: []string{lease},
			Verbs:         []string{"get", "update"},
		},
		{
			APIGroups:     []string{""},
			Resources:     []string{"configmaps"},
			ResourceNames: []string{"kube-proxy"},
			Verbs:         []string{"list", "watch"},
		},
	}
}

// inventoryRules and inventoryNamespaceRules are what an inventory needs on top.
func inventoryRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "patch", "delete"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get"}},
	}
}

func inventoryNamespaceRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}},
		{
			APIGroups:     []string{""},
			Resources:     []string{"configmaps"},
			ResourceNames: []string{"ccmadm-machines"},
			Verbs:         []string{"get", "watch"},
		},
		{
			APIGroups:     []string{""},
			Resources:     []string{"configmaps"},
			ResourceNames: []string{"ccmadm-machines-last-good"},
			Verbs:         []string{"get", "update"},
		},
	}
}

// controllerManager returns a kubeconfig with just these permissions.
func controllerManager(t *testing.T) []byte {
	t.Helper()
	user := "ccm-" + strings.ToLower(strings.TrimPrefix(t.Name(), "TestCluster_"))
	grant(t, user, leaseName)
	kubeconfig, err := plane.Kubeconfig(user)
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// inventoryManager returns a kubeconfig with those for an inventory as well.
func inventoryManager(t *testing.T) []byte {
	t.Helper()
	kubeconfig := controllerManager(t)
	user := "ccm-" + strings.ToLower(strings.TrimPrefix(t.Name(), "TestCluster_"))
	rbac := client(t, plane.Config).RbacV1()
	meta := metav1.ObjectMeta{Name: user}
	if _, err := rbac.ClusterRoles().Update(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: meta,
		Rules:      append(clusterRules(), inventoryRules()...),
	}, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	rules := append(namespaceRules(leaseName), inventoryNamespaceRules()...)
	if _, err := rbac.Roles("kube-system").Update(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: rules},
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// grant gives the permissions to a user, who keeps them. Twice is once.
func grant(t *testing.T, user, lease string) {
	t.Helper()
	rbac := client(t, plane.Config).RbacV1()
	meta := metav1.ObjectMeta{Name: user}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	if _, err := rbac.ClusterRoles().Get(t.Context(), user, metav1.GetOptions{}); err == nil {
		return
	}
	steps := []func(context.Context) error{
		func(ctx context.Context) error {
			_, err := rbac.Roles("kube-system").Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: namespaceRules(lease)},
				metav1.CreateOptions{})
			return err
		},
		func(ctx context.Context) error {
			_, err := rbac.RoleBindings("kube-system").Create(ctx, &rbacv1.RoleBinding{
				ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
			}, metav1.CreateOptions{})
			return err
		},
		func(ctx context.Context) error {
			_, err := rbac.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: clusterRules()},
				metav1.CreateOptions{})
			return err
		},
		func(ctx context.Context) error {
			_, err := rbac.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
				ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{
					APIGroup: rbacv1.GroupName, Kind: "ClusterRole",
					Name: user,
				},
			}, metav1.CreateOptions{})
			return err
		},
	}
	for _, step := range steps {
		if err := step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// compareWithAudit reads what the user did from the API server's audit log:
// nothing was forbidden, and nothing was granted that was not used.
//
// A longer life needs two more permissions: patch events, when one repeats, and
// get and patch nodes, for labels of the old names and for a shutdown taint that
// another cloud-controller-manager has left behind.
func compareWithAudit(t *testing.T, user string) {
	t.Helper()
	var granted []string
	for _, rule := range append(clusterRules(), namespaceRules("")...) {
		for _, verb := range rule.Verbs {
			granted = append(granted, verb+" "+rule.Resources[0])
		}
	}
	used := usedBy(t, user)
	for _, permission := range granted {
		// Informers list where the API server does not stream lists.
		if !strings.HasPrefix(permission, "list ") && !slices.Contains(used, permission) {
			t.Errorf("granted and never used: %s", permission)
		}
	}
}

// usedBy lists what the user did, by verb and resource, from the API server's audit log. Nothing was forbidden.
func usedBy(t *testing.T, user string) []string {
	t.Helper()
	var used []string
	log, err := os.ReadFile(plane.auditLog)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(log) {
		var event auditv1.Event
		if err := json.Unmarshal(line, &event); err != nil {
			continue // the last line may be half written
		}
		if event.User.Username != user || event.ObjectRef == nil || event.ObjectRef.Resource == "selfsubjectaccessreviews" {
			continue
		}
		resource := event.ObjectRef.Resource
		if event.ObjectRef.Subresource != "" {
			resource += "/" + event.ObjectRef.Subresource
		}
		used = append(used, event.Verb+" "+resource)
		if event.ResponseStatus != nil && event.ResponseStatus.Code == 403 {
			t.Errorf("forbidden: %s %s", event.Verb, resource)
		}
	}
	slices.Sort(used)
	used = slices.Compact(used)
	t.Logf("used: %s", strings.Join(used, ", "))
	return used
}
