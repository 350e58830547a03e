package lint

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

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
	args      []arg
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

func newStaticPod(o *object, p *corev1.Pod) *workload {
	return &workload{object: o, podPath: []string{"spec"}, pod: p.Spec, static: true}
}

var (
	managerName = regexp.MustCompile(`(^|[-/])(ccm|cloud-controller-manager|cloud-provider|cloud-node-manager)($|[-:@])`)
	// otherName is a program with a --cloud-provider of its own.
	otherName = regexp.MustCompile(
		`^(cluster-autoscaler|kubelet|kube-apiserver|kube-controller-manager|external-dns|.*csi.*)`,
	)
)

// find looks for the cloud-controller-manager among the containers. It goes by the arguments and by the names of the
// program, the image and the object.
func (w *workload) find(profiles []*templates.Profile) bool {
	for i, c := range w.pod.Containers {
		image := path.Base(repository(c.Image))
		program := image
		if command := slices.Concat(c.Command, c.Args); len(command) > 0 && !strings.HasPrefix(command[0], "-") {
			program = path.Base(command[0])
		}
		if otherName.MatchString(image) || otherName.MatchString(program) {
			continue
		}
		args := readArgs(c)
		provider, ok := lookupArg(args, "cloud-provider")
		named := slices.ContainsFunc([]string{w.name, program, image, c.Name}, managerName.MatchString)
		profile := findProfile(profiles, provider.value, c.Image)
		if !ok && !named && profile == nil {
			continue
		}
		w.container, w.args, w.profile = i, args, profile
		w.agent = strings.Contains(program+image+w.name, "node-manager")
		return true
	}
	return false
}

func loadProfiles() []*templates.Profile {
	var list []*templates.Profile
	for _, name := range templates.Names() {
		if p, err := templates.Load(name); err == nil { // they are tested
			list = append(list, p)
		}
	}
	return list
}

func findProfile(profiles []*templates.Profile, provider, image string) *templates.Profile {
	for _, p := range profiles {
		if provider != "" && provider == p.CloudProviderName() || qualified(repository(image)) == p.Image.Repository {
			return p
		}
	}
	return nil
}

// may says whether the provider has the feature, as far as is known.
func (w *workload) may(f templates.Feature) bool { return w.profile == nil || w.profile.Has(f) }

// upstreamFlags says whether the rules about flags of k8s.io/cloud-provider/app apply.
func (w *workload) upstreamFlags() bool { return !w.agent && (w.profile == nil || !w.profile.OwnFlags) }

// repository is an image's name without tag and digest.
func repository(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if colon := strings.LastIndexByte(image, ':'); colon > strings.LastIndexByte(image, '/') {
		image = image[:colon]
	}
	return image
}

// qualified puts Docker Hub in front of a name without a registry, as container runtimes do.
func qualified(name string) string {
	first, _, ok := strings.Cut(name, "/")
	switch {
	case !ok:
		return "docker.io/library/" + name
	case strings.ContainsAny(first, ".:") || first == "localhost":
		return name
	}
	return "docker.io/" + name
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
