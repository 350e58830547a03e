package templates

import "regexp"

// versionTag is the tag of an image that a release of ccmadm publishes.
const versionTag = "${version}"

// unreleased are versions of builds that no release has: what the linker's default says, and what git describe says
// between two tags, without any tag, and of changed files.
var unreleased = regexp.MustCompile(`^dev$|-[0-9]+-g[0-9a-f]{7,40}(-dirty)?$|-dirty$|^[0-9a-f]{7,40}$`)

// Unpublished tells whether no release of ccmadm has this version, so that no registry has its images.
func Unpublished(version string) bool { return unreleased.MatchString(version) }

// ReleasedImage is an image of ccmadm's own release.
type ReleasedImage struct {
	Ref string
	// Field of a CloudConfiguration names another image in its place. Empty: none does.
	Field string
}

// ReleasedImages lists the images of ccmadm's own release that v has the provider run: those whose name, tag and registry
// v leaves to the profile.
func (p *Profile) ReleasedImages(v Values) ([]ReleasedImage, error) {
	type image struct {
		Image
		field string
	}
	var images []image
	if v.Image == "" {
		images = append(images, image{p.Image, "controllerManager.image"})
	}
	if p.NodeAgent != nil && v.NodeAgent && v.NodeAgentImage == "" {
		images = append(images, image{p.NodeAgent.Image, "nodeAgent.image"})
	}
	if p.NeedsApprover(v) {
		images = append(images, image{Image: Image{Repository: approverImage, Tag: versionTag}})
	}
	var list []ReleasedImage
	for _, i := range images {
		if i.Tag != versionTag || v.ImageTag != "" || i.mirrored(v.ImageRepository) != i.Repository {
			continue
		}
		ref, err := p.ContainerImage(i.Image, v)
		if err != nil {
			return nil, err
		}
		list = append(list, ReleasedImage{Ref: ref, Field: i.field})
	}
	return list, nil
}
