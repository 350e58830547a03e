package templates

import "k8s.io/apimachinery/pkg/util/validation/field"

// NodeAgent is the program of this project that runs on each node where it is asked for, and puts into effect what the
// cloud-controller-manager decides: addresses of load balancers, and routes to pods. What else it needs (the machine's
// network, NET_ADMIN, NET_RAW) is the same for every provider that has one.
type NodeAgent struct {
	// Image is where it comes from.
	Image Image `json:"image"`
	// RBAC is all that it may do.
	RBAC []Rule `json:"rbac"`
}

// NodeAgentImage is the image of the node agent: the user's own, or the profile's with the tag that holds for all.
func (p *Profile) NodeAgentImage(v Values) (string, error) {
	if v.NodeAgentImage != "" {
		return v.NodeAgentImage, nil
	}
	return p.ContainerImage(p.NodeAgent.Image, v)
}

func (a *NodeAgent) validate(at *field.Path, p *Profile) field.ErrorList {
	if a == nil {
		return nil
	}
	errs := a.Image.validate(at.Child("image"), p)
	if a.Image.Repository == "" {
		errs = append(errs, field.Required(at.Child("image", "repository"), "name the image"))
	}
	return append(errs, validateRules(at.Child("rbac"), a.RBAC)...)
}
