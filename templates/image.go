package templates

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// kubeadmRegistry is kubeadm's default imageRepository (kubeadmapiv1.DefaultImageRepository). Vendors publish their
// images elsewhere, so it says nothing about them.
const kubeadmRegistry = "registry.k8s.io"

// ref returns the complete reference: repository, and the user's tag, else the one for the Kubernetes version.
//
// A private mirror takes the place of registry and path, as kubeadm does it for its own images, CoreDNS's and etcd's
// included (GetGenericImage in kubeadm's app/images): with imageRepository registry.example/k8s, the image
// registry.k8s.io/provider-aws/cloud-controller-manager:v1.36.1 becomes
// registry.example/k8s/cloud-controller-manager:v1.36.1.
func (i Image) ref(v Values) (string, error) {
	if i.Repository == "" {
		return "", fmt.Errorf("the provider publishes no image: set controllerManager.image (--image)")
	}
	tag, err := i.tag(v)
	if err != nil {
		return "", err
	}
	return i.mirrored(v.ImageRepository) + ":" + tag, nil
}

// mirrored is the image without its tag, in the user's mirror if there is one.
func (i Image) mirrored(mirror string) string {
	mirror = strings.TrimRight(mirror, "/")
	if mirror == "" || mirror == kubeadmRegistry {
		return i.Repository
	}
	return mirror + "/" + path.Base(i.Repository)
}

// waysToName ends errors about a tag.
const waysToName = "set controllerManager.version (--image-tag) to a tag that works, " +
	"or controllerManager.image (--image)"

func (i Image) tag(v Values) (string, error) {
	if v.ImageTag != "" {
		return v.ImageTag, nil
	}
	if len(i.Tags) > 0 {
		return i.tagFor(v.KubernetesVersion)
	}
	tag, err := expand(i.Tag, v.lookup(nil))
	if err != nil {
		return "", err
	}
	if tag == "" {
		return "", fmt.Errorf("no tag of %s is known: %s", i.Repository, waysToName)
	}
	return tag, nil
}

// tagFor never guesses: a release for another minor version may know other flags and other APIs.
func (i Image) tagFor(kubernetes string) (string, error) {
	v, err := version.ParseGeneric(kubernetes)
	if err != nil {
		return "", fmt.Errorf("the tag of %s depends on the Kubernetes version: %w", i.Repository, err)
	}
	minor := fmt.Sprintf("%d.%d", v.Major(), v.Minor())
	if tag, ok := i.Tags[minor]; ok {
		return tag, nil
	}
	late, near := "", i.nearest(v)
	if i.Late != "" && version.MustParseGeneric(i.Minors()[0]).LessThan(v) {
		late = " (" + i.Late + ")"
	}
	return "", fmt.Errorf("no release of %s for Kubernetes %s is known%s, the nearest is %s (%s): %s",
		i.Repository, minor, late, near, i.Tags[near], waysToName)
}

// Minors lists the Kubernetes versions of Tags, the newest first.
func (i Image) Minors() []string {
	return slices.SortedFunc(maps.Keys(i.Tags), func(a, b string) int {
		if version.MustParseGeneric(a).LessThan(version.MustParseGeneric(b)) {
			return 1
		}
		return -1
	})
}

// nearest is the known minor version that is least away; of two, the newer.
func (i Image) nearest(v *version.Version) string {
	away := func(minor string) int {
		known := version.MustParseGeneric(minor) // checked when the profile was read
		d := int(known.Minor()) - int(v.Minor())
		return max(d, -d)*2 - min(max(d, 0), 1)
	}
	return slices.MinFunc(slices.Sorted(maps.Keys(i.Tags)), func(a, b string) int { return cmp.Compare(away(a), away(b)) })
}

// NodeAgentImage is the image of the node agent: the user's own, or the profile's with the tag that holds for all.
func (p *Profile) NodeAgentImage(v Values) (string, error) {
	if v.NodeAgentImage != "" {
		return v.NodeAgentImage, nil
	}
	return p.ContainerImage(p.NodeAgent.Image, v)
}
