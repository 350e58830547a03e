package lint

import (
	"cmp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

const authenticationReader = "extension-apiserver-authentication-reader"

type role struct {
	*object
	rules []rbacv1.PolicyRule
}

type binding struct {
	*object
	ref      rbacv1.RoleRef
	subjects []rbacv1.Subject
}

// grants is what is known about the permissions of one workload.
type grants struct {
	roles    []*role
	bindings []*binding
	complete bool // all roles are in the files
}

func (w *workload) account() string { return cmp.Or(w.pod.ServiceAccountName, "default") }

// grantsOf finds what is bound to the account of a workload.
func grantsOf(w *workload, roles []*role, bindings []*binding) grants {
	g := grants{complete: true}
	for _, b := range bindings {
		if !slices.ContainsFunc(b.subjects, func(subject rbacv1.Subject) bool { return w.isSubject(subject, b.namespace) }) {
			continue
		}
		g.bindings = append(g.bindings, b)
		i := slices.IndexFunc(roles, func(r *role) bool {
			return r.kind == b.ref.Kind && r.name == b.ref.Name && (r.kind == "ClusterRole" || r.namespace == b.namespace)
		})
		switch {
		case i >= 0:
			g.roles = append(g.roles, roles[i])
		case b.ref.Name != authenticationReader && b.ref.Name != "system:auth-delegator":
			g.complete = false
		}
	}
	return g
}

func (w *workload) isSubject(s rbacv1.Subject, bindingNamespace string) bool {
	namespace := cmp.Or(w.namespace, "default")
	switch s.Kind {
	case rbacv1.ServiceAccountKind:
		return s.Name == w.account() && cmp.Or(s.Namespace, bindingNamespace) == namespace
	case rbacv1.GroupKind:
		return s.Name == "system:serviceaccounts" || s.Name == "system:serviceaccounts:"+namespace
	}
	return false
}

// lacks returns those of the verbs that no rule allows.
func (g grants) lacks(group, resource string, verbs []string) []string {
	return slices.DeleteFunc(slices.Clone(verbs), func(verb string) bool {
		return slices.ContainsFunc(g.roles, func(r *role) bool {
			return slices.ContainsFunc(r.rules, func(rule rbacv1.PolicyRule) bool {
				return allows(rule.APIGroups, group) && allows(rule.Resources, resource) && allows(rule.Verbs, verb)
			})
		})
	})
}

func allows(list []string, item string) bool {
	_, sub, hasSub := strings.Cut(item, "/")
	return slices.Contains(list, item) || slices.Contains(list, "*") || hasSub && slices.Contains(list, "*/"+sub)
}
