package manifests

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/templates"
)

// RBAC returns the identity of the cloud-controller-manager and all that it may do: core.yaml and the profile's rules.
// The names carry the provider's, so that neither a distribution nor a vendor's chart shares them (k3s-io/k3s#3308).
func RBAC(p *templates.Profile, v templates.Values) ([]*Object, error) {
	var rules []templates.Rule
	if err := load("core.yaml", &rules); err != nil {
		return nil, fmt.Errorf("render RBAC: %w", err)
	}
	for _, r := range p.RBAC {
		if !r.WithConfig || v.CloudConfig {
			rules = append(rules, r)
		}
	}
	name, who := prefix+p.Name, subject(p, v.Mode)
	list := []metav1.Object{
		clusterRole(name, policy(rules, false)),
		clusterRoleBinding(name, who),
		role(name, policy(rules, true)),
		roleBinding(name, name, who),
		// Without it the server cannot verify who asks for its metrics, and gives up (kubernetes/cloud-provider#34);
		// onprem's own looks up nothing unless --authentication-skip-lookup=false. The ConfigMap holds public CAs only.
		roleBinding(name+":authentication-reader", "extension-apiserver-authentication-reader", who),
	}
	if v.Mode != templates.StaticPod {
		list = append([]metav1.Object{serviceAccount(p)}, list...)
	}
	return toObjects(list...)
}

func subject(p *templates.Profile, mode templates.Mode) rbacv1.Subject {
	if mode == templates.StaticPod {
		return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: StaticPodUser}
	}
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: workloadName(p), Namespace: Namespace}
}

func policy(rules []templates.Rule, namespaced bool) []rbacv1.PolicyRule {
	var list []rbacv1.PolicyRule
	for _, r := range rules {
		if r.Namespaced == namespaced {
			list = append(list, rbacv1.PolicyRule{APIGroups: r.APIGroups, Resources: r.Resources, ResourceNames: r.ResourceNames, Verbs: r.Verbs})
		}
	}
	return list
}

func serviceAccount(p *templates.Profile) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{
		TypeMeta:                     metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta:                   objectMeta(workloadName(p)),
		AutomountServiceAccountToken: new(false), // its own pods ask for it
	}
}

func clusterRole(name string, rules []rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		TypeMeta: rbacType("ClusterRole"), ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules,
	}
}

func clusterRoleBinding(name string, who rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		TypeMeta: rbacType("ClusterRoleBinding"), ObjectMeta: metav1.ObjectMeta{Name: name},
		Subjects: []rbacv1.Subject{who}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
	}
}

func role(name string, rules []rbacv1.PolicyRule) *rbacv1.Role {
	return &rbacv1.Role{TypeMeta: rbacType("Role"), ObjectMeta: objectMeta(name), Rules: rules}
}

func roleBinding(name, role string, who ...rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		TypeMeta: rbacType("RoleBinding"), ObjectMeta: objectMeta(name),
		Subjects: who, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
	}
}

func rbacType(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}
