package templates

import (
	"path"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Profiles are those that somebody's cloud-controller-manager is compared with.
type Profiles []*Profile

// Known loads the built-in profiles.
func Known() Profiles {
	var list Profiles
	for _, name := range Names() {
		if p, err := Load(name); err == nil { // they are tested
			list = append(list, p)
		}
	}
	return list
}

// Manager is what is recognized of somebody's cloud-controller-manager.
type Manager struct {
	// Container is the index of its container.
	Container int
	Args      []Arg
	// Profile is that of its provider. Nil: nothing is known about it.
	Profile *Profile
	// Agent says that it is a part of one that runs on every node.
	Agent bool
}

var (
	managerName = regexp.MustCompile(`(^|[-/])(ccm|cloud-controller-manager|cloud-provider|cloud-node-manager)($|[-:@])`)
	// otherName is a program with a --cloud-provider of its own.
	otherName = regexp.MustCompile(
		`^(cluster-autoscaler|kubelet|kube-apiserver|kube-controller-manager|external-dns|.*csi.*)`,
	)
)

// Recognize looks for a cloud-controller-manager among the containers of an object's pods. It goes by the arguments and
// by the names of the program, the image and the object.
func (list Profiles) Recognize(object string, containers []corev1.Container) (Manager, bool) {
	for i, c := range containers {
		image := path.Base(Repository(c.Image))
		program := image
		if command := slices.Concat(c.Command, c.Args); len(command) > 0 && !strings.HasPrefix(command[0], "-") {
			program = path.Base(command[0])
		}
		if otherName.MatchString(image) || otherName.MatchString(program) {
			continue
		}
		args := ReadArgs(c)
		provider, ok := LookupArg(args, "cloud-provider")
		named := slices.ContainsFunc([]string{object, program, image, c.Name}, managerName.MatchString)
		profile := list.find(provider.Value, c.Image)
		if (!ok || provider.Value == "external") && !named && profile == nil { // external is what others are told
			continue
		}
		agent := strings.Contains(program+image+object, "node-manager")
		return Manager{Container: i, Args: args, Profile: profile, Agent: agent}, true
	}
	return Manager{}, false
}

func (list Profiles) find(provider, image string) *Profile {
	for _, p := range list {
		if provider != "" && provider == p.CloudProviderName() || qualified(Repository(image)) == p.Image.Repository {
			return p
		}
	}
	return nil
}

// Repository is an image's name without tag and digest.
func Repository(image string) string {
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
