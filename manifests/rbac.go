package manifests

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/templates"
)

// RBAC returns the identities of the cloud-controller-manager and of the provider's agents, and all that they may do:
// core.yaml and the profile's rules; and what others may not, where the manager relies on it. The names carry the provider's, so that neither a distribution nor a vendor's
// chart shares them (k3s-io/k3s#3308).
func RBAC(p *templates.Profile, v templates.Values) ([]*Object, error) {
	core, err := coreRules(p)
	if err != nil {
		return nil, fmt.Errorf("render RBAC: %w", err)
	}
	name, who := v1alpha1.Prefix+p.Name, subjects(p, v)
	var list []metav1.Object
	if v.ServingCertificates {
		list = append(list, kubeletPolicy()...)
	}
	switch {
	case p.NeedsApprover(v):
		own, err := approverRBAC()
		if err != nil {
			return nil, fmt.Errorf("render RBAC: %w", err)
		}
		list = append(list, own...)
	case v.ServingCertificates:
		own, err := approverRules("serving-rules.yaml")
		if err != nil {
			return nil, fmt.Errorf("render RBAC: %w", err)
		}
		core = append(core, own...)
	}
	if v.Mode != templates.StaticPod || v.Handover {
		list = append(list, serviceAccount(WorkloadName(p)))
	}
	list = append(list, grant(name, granted(slices.Concat(core, p.RBAC), p, v), who...)...)
	// Without it the server cannot verify who asks for its metrics, and gives up (kubernetes/cloud-provider#34);
	// onprem's own looks up nothing unless --authentication-skip-lookup=false. The ConfigMap holds public CAs only.
	const reader = "extension-apiserver-authentication-reader" // upstream's Role
	list = append(list, roleBinding(v1alpha1.Namespace, name+":authentication-reader", reader, who...))
	for _, a := range p.Agents {
		list = append(list, serviceAccount(agentName(p, a)))
		list = append(list, grant(name+":"+a.Name, granted(a.RBAC, p, v), account(agentName(p, a)))...)
	}
	if p.NodeAgent != nil { // its load balancers are ours
		list = append(list, onlyNotReady(who)...)
		list = append(list, nodePortsPolicy()...)
		list = append(list, externalIPsPolicy()...)
	}
	return toObjects(list...)
}

// coreRules are those of every provider. The Lease's name is the profile's.
func coreRules(p *templates.Profile) ([]templates.Rule, error) {
	var rules []templates.Rule
	if err := load("core.yaml", &rules); err != nil {
		return nil, err
	}
	for _, r := range rules {
		if i := slices.Index(r.ResourceNames, "${lease}"); i >= 0 {
			r.ResourceNames[i] = p.LeaseName()
		}
	}
	return rules, nil
}

// granted are the rules that have a use. Deleting Nodes is never granted with lifecycle Off, whatever a profile says: what was
// switched off must not come back by a mistake, in a vendor's program or in a profile.
func granted(rules []templates.Rule, p *templates.Profile, v templates.Values) []templates.Rule {
	var list []templates.Rule
	for _, r := range rules {
		if !r.When.Holds(p, v) {
			continue
		}
		if !v.NodeLifecycle && slices.Contains(r.Resources, "nodes") {
			r.Verbs = slices.DeleteFunc(slices.Clone(r.Verbs), func(verb string) bool {
				return verb == "delete" || verb == "deletecollection"
			})
		}
		if len(r.Verbs) > 0 {
			list = append(list, r)
		}
	}
	return list
}

// grant returns one ClusterRole for the rules without a namespace, one Role for each namespace, and their bindings.
func grant(name string, rules []templates.Rule, who ...rbacv1.Subject) []metav1.Object {
	list := []metav1.Object{clusterRole(name, policy(rules, "")), clusterRoleBinding(name, who...)}
	var namespaces []string
	for _, r := range rules {
		if r.Namespace != "" && !slices.Contains(namespaces, r.Namespace) {
			namespaces = append(namespaces, r.Namespace)
		}
	}
	for _, ns := range namespaces {
		list = append(list, role(ns, name, policy(rules, ns)), roleBinding(ns, name, name, who...))
	}
	return list
}

// subjects are the manager's identities: the static pod's user, the workload's ServiceAccount, or, while one takes over
// from the other, both.
func subjects(p *templates.Profile, v templates.Values) []rbacv1.Subject {
	user := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: v1alpha1.StaticPodUser}
	switch {
	case v.Handover:
		return []rbacv1.Subject{user, account(WorkloadName(p))}
	case v.Mode == templates.StaticPod:
		return []rbacv1.Subject{user}
	}
	return []rbacv1.Subject{account(WorkloadName(p))}
}

func account(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: v1alpha1.Namespace}
}

func policy(rules []templates.Rule, namespace string) []rbacv1.PolicyRule {
	var list []rbacv1.PolicyRule
	for _, r := range rules {
		if r.Namespace == namespace {
			list = append(list, rbacv1.PolicyRule{
				APIGroups:     r.APIGroups,
				Resources:     r.Resources,
				ResourceNames: r.ResourceNames,
				Verbs:         r.Verbs,
			})
		}
	}
	return list
}

func serviceAccount(name string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{
		TypeMeta:                     metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta:                   objectMeta(name),
		AutomountServiceAccountToken: new(false), // its own pods ask for it
	}
}

func clusterRole(name string, rules []rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		TypeMeta: rbacType("ClusterRole"), ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules,
	}
}

func clusterRoleBinding(name string, who ...rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		TypeMeta: rbacType("ClusterRoleBinding"), ObjectMeta: metav1.ObjectMeta{Name: name},
		Subjects: who, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
	}
}

func role(namespace, name string, rules []rbacv1.PolicyRule) *rbacv1.Role {
	return &rbacv1.Role{
		TypeMeta: rbacType("Role"), ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Rules: rules,
	}
}

func roleBinding(namespace, name, role string, who ...rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		TypeMeta: rbacType("RoleBinding"), ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Subjects: who, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
	}
}

func rbacType(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}
