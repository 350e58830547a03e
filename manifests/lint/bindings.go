package lint

import (
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

func authentication(s *Set) []problem {
	return s.eachGranted(func(w *workload, g grants) []problem {
		bound := slices.ContainsFunc(g.bindings, func(b *binding) bool {
			return b.kind == "RoleBinding" && b.namespace == v1alpha1.Namespace && b.ref.Name == authenticationReader
		})
		_, kubeconfig := w.arg("authentication-kubeconfig")
		read := access{resource: "configmaps", verbs: []string{"get"}, namespace: v1alpha1.Namespace, name: authenticationConfig}
		if bound || kubeconfig || w.is("authentication-skip-lookup", "true") ||
			w.is("authentication-tolerate-lookup-failure", "true") ||
			len(g.lacks(read)) == 0 {
			return nil
		}
		return w.problem(
			nil,
			fmt.Sprintf(
				"ServiceAccount/%s may not read ConfigMap/%s/%s",
				w.account(),
				v1alpha1.Namespace,
				authenticationConfig,
			),
			func() error {
				return w.file.add(
					fmt.Sprintf(readerBinding, w.account(), authenticationReader, w.account(), w.accountNamespace()),
				)
			},
		)
	})
}

const readerBinding = `apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: %s:authentication-reader
  namespace: kube-system
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: %s
subjects:
- kind: ServiceAccount
  name: %s
  namespace: %s
`

func sharedNames(s *Set) []problem {
	var problems []problem
	for _, o := range s.objects {
		cluster := o.kind == "ClusterRole" || o.kind == "ClusterRoleBinding"
		if cluster && (o.name == "cloud-controller-manager" || o.name == "system:cloud-controller-manager") {
			problems = append(
				problems,
				problem{
					object:  o,
					at:      o.at("metadata", "name"),
					message: fmt.Sprintf("many vendors and distributions call theirs %q", o.name),
				},
			)
		}
	}
	return problems
}

func everything(s *Set) []problem {
	var problems []problem
	for _, w := range s.workloads {
		for _, b := range w.granted.bindings {
			if b.ref.Name == "cluster-admin" {
				problems = append(
					problems,
					problem{object: b.object, at: b.at("roleRef", "name"), message: fmt.Sprintf("%s has cluster-admin", w)},
				)
			}
		}
		for _, r := range w.granted.roles {
			if slices.ContainsFunc(r.rules, func(r rbacv1.PolicyRule) bool {
				return slices.Contains(r.Verbs, "*") && slices.Contains(r.Resources, "*") && slices.Contains(r.APIGroups, "*")
			}) {
				problems = append(
					problems,
					problem{object: r.object, at: r.at("rules"), message: fmt.Sprintf("%s may do everything with everything", w)},
				)
			}
		}
	}
	return problems
}

// unbound finds pods whose permissions are meant for another account. Without bindings in the files nothing is known.
func unbound(s *Set) []problem {
	var problems []problem
	for _, w := range s.workloads {
		if !w.scheduled() || len(s.bindings) == 0 {
			continue
		}
		namespace := w.accountNamespace()
		if len(w.granted.bindings) == 0 {
			problems = append(
				problems,
				w.problem(
					w.at(w.in("serviceAccountName")...),
					fmt.Sprintf("no binding in these files is for ServiceAccount/%s/%s", namespace, w.account()),
					nil,
				)...)
		} else if s.hasKind("ServiceAccount") && w.account() != "default" && !s.has("ServiceAccount", namespace, w.account()) {
			problems = append(
				problems,
				w.problem(
					w.at(w.in("serviceAccountName")...),
					fmt.Sprintf("these files have ServiceAccounts, but not %s/%s", namespace, w.account()),
					nil,
				)...)
		}
	}
	return problems
}

func (s *Set) hasKind(kind string) bool {
	return slices.ContainsFunc(s.objects, func(o *object) bool { return o.kind == kind })
}
