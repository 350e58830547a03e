package templates

import "regexp"

// versionTag is the tag of an image that a release of ccmadm publishes.
const versionTag = "${version}"

// unreleased are versions of builds that no release has: what the linker's default says, and what git describe says
// between two tags, without any tag, and of changed files.
var unreleased = regexp.MustCompile(`^dev$|-[0-9]+-g[0-9a-f]{7,40}(-dirty)?$|-dirty$|^[0-9a-f]{7,40}$`)

// Unpublished tells whether no release of ccmadm has this version, so that no registry has its images.
func Unpublished(version string) bool { return unreleased.MatchString(version) }

// ReleasedImages lists the images of ccmadm's own release that v has the provider run: those whose name, tag and registry
// v leaves to the profile.
func (p *Profile) ReleasedImages(v Values) ([]string, error) {
	var images []Image
	if v.Image == "" {
		images = append(images, p.Image)
	}
	if p.NodeAgent != nil && v.NodeAgent && v.NodeAgentImage == "" {
		images = append(images, p.NodeAgent.Image)
	}
	if p.NeedsApprover(v) {
		images = append(images, Image{Repository: approverImage, Tag: versionTag})
	}
	var list []string
	for _, i := range images {
		if i.Tag != versionTag || v.ImageTag != "" || i.mirrored(v.ImageRepository) != i.Repository {
			continue
		}
		ref, err := p.ContainerImage(i, v)
		if err != nil {
			return nil, err
		}
		list = append(list, ref)
	}
	return list, nil
}
