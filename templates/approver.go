package templates

// approverImage is the program of this project that approves serving certificates beside a vendor's.
const approverImage = "ghcr.io/ccmadm/cloud-controller-manager"

// ApprovesItself says whether the provider's own program approves serving certificates of kubelets.
func (p *Profile) ApprovesItself() bool { return len(p.ServingArgs) > 0 }

// NeedsApprover says whether serving certificates are to be approved, and not by the provider's own program.
func (p *Profile) NeedsApprover(v Values) bool { return v.ServingCertificates && !p.ApprovesItself() }

// ApproverImage is the image of the program beside the provider's: of ccmadm's own release, whatever image the provider's
// program has been given.
func (p *Profile) ApproverImage(v Values) (string, error) {
	return p.ContainerImage(Image{Repository: approverImage, Tag: "${version}"},
		Values{Version: v.Version, ImageRepository: v.ImageRepository})
}
