package lint

import (
	"cmp"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/ccmadm/ccmadm/manifests/edit"
	"github.com/ccmadm/ccmadm/templates"
)

// workload runs a cloud-controller-manager.
type workload struct {
	*object
	podPath    []string // of the pod's spec in the object
	pod        corev1.PodSpec
	deployment *appsv1.Deployment // nil for other kinds
	static     bool               // run by the kubelet

	container int // the cloud-controller-manager
	args      []templates.Arg
	granted   grants
	enforced  string             // pod security level of its namespace, where that is known
	agent     bool               // a part of it that runs on every node
	profile   *templates.Profile // nil: nothing is known about the provider
}

func newDeployment(o *object, d *appsv1.Deployment) *workload {
	return &workload{object: o, podPath: []string{"spec", "template", "spec"}, pod: d.Spec.Template.Spec, deployment: d}
}

func newDaemonSet(o *object, d *appsv1.DaemonSet) *workload {
	return &workload{object: o, podPath: []string{"spec", "template", "spec"}, pod: d.Spec.Template.Spec}
}

// newStaticPod takes a Pod for a static one. Set.read knows better where the files have its ServiceAccount.
func newStaticPod(o *object, p *corev1.Pod) *workload {
	return &workload{object: o, podPath: []string{"spec"}, pod: p.Spec, static: true}
}

// find looks for the cloud-controller-manager among the containers.
func (w *workload) find(profiles templates.Profiles) bool {
	m, ok := profiles.Recognize(w.name, w.pod.Containers)
	if ok {
		w.container, w.args, w.profile, w.agent = m.Container, m.Args, m.Profile, m.Agent
	}
	return ok
}

// may says whether the provider has the feature, as far as is known.
func (w *workload) may(f templates.Feature) bool { return w.profile == nil || w.profile.Has(f) }

// upstreamFlags says whether the rules about flags of k8s.io/cloud-provider/app apply.
func (w *workload) upstreamFlags() bool { return !w.agent && (w.profile == nil || !w.profile.OwnFlags) }

// byName says that nothing but a name tells that it is a cloud-controller-manager.
func (w *workload) byName() bool {
	_, told := w.arg("cloud-provider")
	return w.profile == nil && !told
}

// initializes says whether the workload initializes nodes, so that it has to run before any node is initialized. One
// that only serves Services can wait for that.
func (w *workload) initializes() bool { return !w.agent && w.may(templates.Nodes) }

// in returns the path of a field of the pod's spec.
func (w *workload) in(path ...string) []string { return slices.Concat(w.podPath, path) }

// of returns the path of a field of the container.
func (w *workload) of(path ...string) []string {
	return w.in(append([]string{"containers", strconv.Itoa(w.container)}, path...)...)
}

func (w *workload) main() *corev1.Container { return &w.pod.Containers[w.container] }

func (w *workload) replicas() int32 {
	if w.deployment == nil || w.deployment.Spec.Replicas == nil {
		return 1
	}
	return *w.deployment.Spec.Replicas
}

// scheduled says whether the rules for a cloud-controller-manager that the scheduler places apply.
func (w *workload) scheduled() bool { return !w.static && !w.agent }

func (w *workload) problem(at *yaml.Node, message string, fix func() error) []problem {
	return []problem{{object: w.object, at: at, message: message, fix: fix}}
}

// set returns a fix that gives a field of the object a value.
func (o *object) set(value string, tag string, path ...string) func() error {
	return func() error {
		n := edit.ScalarNode(value)
		n.Tag = cmp.Or(tag, yaml.NodeTagString)
		return o.doc.Set(n, o.full(path...)...)
	}
}
