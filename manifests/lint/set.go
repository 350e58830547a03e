package lint

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/ccmadm/ccmadm/templates"
)

// Set is all files that are looked at together: a permission may be granted in another file than the pod that needs it.
type Set struct {
	// Files are what Parse returned.
	Files []*File
	// Minor is the minor version of the cluster that they are for, as 37; 0: it is not known.
	Minor int
	// Passed names the objects that no rule looks at. Check fills it.
	Passed []string

	profiles   templates.Profiles
	objects    []*object
	workloads  []*workload
	namespaces []*corev1.Namespace
	roles      []*role
	bindings   []*binding
}

// read takes everything from the files' text, which fixes change. What cannot be read is left out, and in the error.
func (s *Set) read() error {
	if s.profiles == nil {
		s.profiles = templates.Known()
	}
	*s = Set{Files: s.Files, Minor: s.Minor, profiles: s.profiles}
	var errs []error
	for _, f := range s.Files {
		for _, d := range f.docs {
			objects, err := readObjects(f, d)
			errs = append(errs, err)
			s.objects = append(s.objects, objects...)
		}
	}
	for _, o := range s.objects {
		errs = append(errs, s.add(o))
	}
	for _, w := range s.workloads {
		w.enforced = enforcedLevel(s.namespaces, w.namespace)
		w.granted = grantsOf(w, s.roles, s.bindings)
		w.static = w.static && !s.hasAccount(w)
	}
	return errors.Join(errs...)
}

func (s *Set) add(o *object) error {
	switch o.kind {
	case "Deployment":
		return addTyped(o, func(d *appsv1.Deployment) { s.addWorkload(newDeployment(o, d)) })
	case "DaemonSet":
		return addTyped(o, func(d *appsv1.DaemonSet) { s.addWorkload(newDaemonSet(o, d)) })
	case "Pod":
		return addTyped(o, func(p *corev1.Pod) { s.addWorkload(newStaticPod(o, p)) })
	case "Namespace":
		return addTyped(o, func(n *corev1.Namespace) { s.namespaces = append(s.namespaces, n) })
	case "ClusterRole", "Role":
		return addTyped(o, func(r *rbacv1.ClusterRole) { s.roles = append(s.roles, &role{o, r.Rules, r.AggregationRule != nil}) })
	case "ClusterRoleBinding", "RoleBinding":
		return addTyped(o, func(b *rbacv1.ClusterRoleBinding) {
			s.bindings = append(s.bindings, &binding{o, b.RoleRef, b.Subjects})
		})
	case "ServiceAccount", "Secret", "ConfigMap", "Service":
	default:
		s.pass(o)
	}
	return nil
}

func addTyped[T any](o *object, add func(*T)) error {
	typed := new(T)
	if err := o.decode(typed); err != nil {
		return err
	}
	add(typed)
	return nil
}

func (s *Set) addWorkload(w *workload) {
	if !w.find(s.profiles) {
		s.pass(w.object)
		return
	}
	s.workloads = append(s.workloads, w)
}

func (s *Set) pass(o *object) {
	s.Passed = append(s.Passed, fmt.Sprintf("%s:%d: %s", o.doc.File, o.doc.LineOf(o.node), o))
}

// Objects is how many objects the files have. Workloads is how many of them run a cloud-controller-manager.
func (s *Set) Objects() (objects, workloads int) { return len(s.objects), len(s.workloads) }

func (s *Set) has(kind, namespace, name string) bool {
	return slices.ContainsFunc(s.objects, func(o *object) bool {
		return o.kind == kind && cmp.Or(o.namespace, "default") == namespace && o.name == name
	})
}

// hasAccount says whether the files make or bind the ServiceAccount of a workload: a Pod that has one is for the API server, since kubelets
// refuse it as a static pod.
func (s *Set) hasAccount(w *workload) bool {
	return w.pod.ServiceAccountName != "" && (s.has("ServiceAccount", w.accountNamespace(), w.account()) ||
		slices.ContainsFunc(w.granted.bindings, w.isBound))
}

func enforcedLevel(namespaces []*corev1.Namespace, name string) string {
	for _, n := range namespaces {
		if n.Name == name {
			return n.Labels["pod-security.kubernetes.io/enforce"]
		}
	}
	return ""
}
