package templates

import (
	"slices"
	"strings"
)

// approverImage is the program of this project that approves serving certificates beside a vendor's.
const approverImage = "ghcr.io/ccmadm/cloud-controller-manager"

// ApprovesItself says whether the provider's own program approves serving certificates of kubelets.
func (p *Profile) ApprovesItself() bool { return len(p.ServingArgs) > 0 }

// NeedsApprover says whether serving certificates are to be approved, and not by the provider's own program.
func (p *Profile) NeedsApprover(v Values) bool { return v.ServingCertificates && !p.ApprovesItself() }

// ServingNameArgs is the argument with the DNS names that Nodes of this provider may have without a proof; none, if there are none:
// a release before does not know it.
func (p *Profile) ServingNameArgs(v Values) []string {
	names := slices.Concat(p.ServingNames, v.ServingNames)
	if len(names) == 0 {
		return nil
	}
	return []string{"--serving-certificate-names=" + strings.Join(names, ",")}
}

// ApproverImage is the image of the program beside the provider's: of ccmadm's own release, whatever image the provider's
// program has been given.
func (p *Profile) ApproverImage(v Values) (string, error) {
	return p.ContainerImage(Image{Repository: approverImage, Tag: versionTag},
		Values{Version: v.Version, ImageRepository: v.ImageRepository})
}
