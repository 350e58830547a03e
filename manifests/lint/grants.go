package lint

import (
	"cmp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// The ConfigMap that says how callers are authenticated, and upstream's Role that may read it.
const (
	authenticationConfig = "extension-apiserver-authentication"
	authenticationReader = authenticationConfig + "-reader"
)

type role struct {
	*object
	rules []rbacv1.PolicyRule
	// aggregated roles get their rules in the cluster.
	aggregated bool
}

type binding struct {
	*object
	ref      rbacv1.RoleRef
	subjects []rbacv1.Subject
}

// grant is a role that is bound to an account.
type grant struct {
	*role
	namespace string // in which alone it counts; empty: in all, and for what has no namespace
	shared    bool   // bound to a group: its rules are for others, too
}

// grants is what is known about the permissions of one workload.
type grants struct {
	roles    []grant
	bindings []*binding
	complete bool // all rules are in the files
}

func (w *workload) account() string { return cmp.Or(w.pod.ServiceAccountName, "default") }

func (w *workload) accountNamespace() string { return cmp.Or(w.namespace, "default") }

// grantsOf finds what is bound to the account of a workload.
func grantsOf(w *workload, roles []*role, bindings []*binding) grants {
	g := grants{complete: true}
	for _, b := range bindings {
		account := w.isBound(b)
		if !account && (isDefaultOfGroups(b.ref.Name) || !slices.ContainsFunc(b.subjects, w.isInGroup)) {
			continue
		}
		g.bindings = append(g.bindings, b)
		i := slices.IndexFunc(roles, func(r *role) bool {
			return r.kind == b.ref.Kind && r.name == b.ref.Name && (r.kind == "ClusterRole" || r.namespace == b.namespace)
		})
		switch {
		case i >= 0:
			bound := grant{role: roles[i], shared: !account}
			if b.kind == "RoleBinding" {
				bound.namespace = cmp.Or(b.namespace, "default")
			}
			g.roles = append(g.roles, bound)
			g.complete = g.complete && !bound.aggregated
		case b.ref.Name != authenticationReader && b.ref.Name != "system:auth-delegator":
			g.complete = false
		}
	}
	return g
}

// isBound says whether a binding names the workload's account, as such or as the user that it is to the API server.
func (w *workload) isBound(b *binding) bool {
	return slices.ContainsFunc(b.subjects, func(s rbacv1.Subject) bool {
		switch s.Kind {
		case rbacv1.ServiceAccountKind:
			return s.Name == w.account() && cmp.Or(s.Namespace, b.namespace) == w.accountNamespace()
		case rbacv1.UserKind:
			return s.Name == "system:serviceaccount:"+w.accountNamespace()+":"+w.account()
		}
		return false
	})
}

func (w *workload) isInGroup(s rbacv1.Subject) bool {
	groups := []string{"system:authenticated", "system:serviceaccounts", "system:serviceaccounts:" + w.accountNamespace()}
	return s.Kind == rbacv1.GroupKind && slices.Contains(groups, s.Name)
}

// isDefaultOfGroups tells the roles that each API server binds to groups of accounts. They grant nothing that a
// cloud-controller-manager needs, and do not tell what it is granted.
func isDefaultOfGroups(role string) bool {
	name, own := strings.CutPrefix(role, "system:")
	return own && slices.Contains([]string{"discovery", "basic-user", "public-info-viewer", "service-account-issuer-discovery"}, name)
}

// access is something that a workload does.
type access struct {
	group, resource string
	verbs           []string
	// namespace is where it does it; empty: everywhere, or the resource has none.
	namespace string
	// name is that of the one object; anyName: of some that are not known; empty: all.
	name string
}

const anyName = "*"

// accessTo knows what is used in one namespace, or by its name.
func (w *workload) accessTo(group, resource string, verbs ...string) access {
	a := access{group: group, resource: resource, verbs: verbs}
	switch resource {
	case "leases":
		lease, _ := w.arg("leader-elect-resource-namespace")
		a.namespace, a.name = cmp.Or(lease.Value, v1alpha1.Namespace), anyName
	case "serviceaccounts", "serviceaccounts/token": // of the controllers
		a.namespace, a.name = v1alpha1.Namespace, anyName
	}
	return a
}

// lacks returns those of the verbs that no rule allows.
func (g grants) lacks(a access) []string {
	return slices.DeleteFunc(slices.Clone(a.verbs), func(verb string) bool {
		return slices.ContainsFunc(g.roles, func(r grant) bool {
			return (r.namespace == "" || r.namespace == a.namespace) && slices.ContainsFunc(r.rules, func(rule rbacv1.PolicyRule) bool {
				return a.in(rule, verb) && a.reaches(rule.ResourceNames, verb)
			})
		})
	})
}

// in tells whether a rule is about it.
func (a access) in(rule rbacv1.PolicyRule, verb string) bool {
	return allows(rule.APIGroups, a.group) && allows(rule.Resources, a.resource) && allows(rule.Verbs, verb)
}

// reaches tells whether a rule that is limited to names is enough. Requests to list, watch and create have none; but to create a
// subresource, such as a token, is asked of an object.
func (a access) reaches(names []string, verb string) bool {
	nameless := verb == "list" || verb == "watch" || verb == "create" && !strings.Contains(a.resource, "/")
	return len(names) == 0 || !nameless && (a.name == anyName || slices.Contains(names, a.name))
}

// isLimited tells whether a role allows one of the verbs elsewhere, or for other objects.
func (g grants) isLimited(a access) bool {
	return slices.ContainsFunc(g.roles, func(r grant) bool {
		return slices.ContainsFunc(r.rules, func(rule rbacv1.PolicyRule) bool {
			return slices.ContainsFunc(a.verbs, func(verb string) bool { return a.in(rule, verb) })
		})
	})
}

func allows(list []string, item string) bool {
	_, sub, hasSub := strings.Cut(item, "/")
	return slices.Contains(list, item) || slices.Contains(list, "*") || hasSub && slices.Contains(list, "*/"+sub)
}
