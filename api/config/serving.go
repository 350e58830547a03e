package config

import (
	"errors"
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// ServingCertificates configures the approval of serving certificates that kubelets with serverTLSBootstrap request.
type ServingCertificates struct {
	// Enabled approves them if requester, names and addresses are those of the Node. false overrides a recorded true.
	// Default: false.
	Enabled *bool `json:"enabled,omitempty"`
	// AddressRanges are CIDRs in which an unproven address of a Node is accepted: of a machine whose addresses no
	// inventory lists, and with any provider but onprem. An empty list overrides a recorded one.
	// +pattern=^[0-9a-fA-F:.]+/[1-9][0-9]*$
	AddressRanges []string `json:"addressRanges,omitempty"`
	// Names are DNS names with a dot that a Node may have although they are unproven: a name, or *.DOMAIN for all names below a
	// domain, whose first label is that of the Node's name. Names without a dot need no entry. An empty list overrides a recorded one.
	// +pattern=^([*][.])?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$
	Names []string `json:"names,omitempty"`
}

// WantsServingCertificates reports whether they are to be approved.
func (c *CloudConfiguration) WantsServingCertificates() bool {
	return c.ServingCertificates.Enabled != nil && *c.ServingCertificates.Enabled
}

func (s *ServingCertificates) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, text := range s.AddressRanges {
		if _, err := ParseAddressRange(text); err != nil {
			errs = append(errs, field.Invalid(path.Child("addressRanges").Index(i), text, err.Error()))
		}
	}
	for i, text := range s.Names {
		if len(validation.IsDNS1123Subdomain(strings.TrimPrefix(text, "*."))) > 0 {
			errs = append(errs, field.Invalid(path.Child("names").Index(i), text, "must be a DNS name, or *.DOMAIN, like *.nodes.example.com"))
		}
	}
	return errs
}

// ParseAddressRange reads a CIDR of addressRanges, which may be that of an address in it. One of all addresses would leave no address to be
// proven.
func ParseAddressRange(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil || prefix.Bits() == 0 || prefix.Addr().Is4In6() {
		return netip.Prefix{}, errors.New("must be a CIDR, like 192.0.2.0/24")
	}
	return prefix.Masked(), nil
}

// The admission policy that keeps kubelets to what a cloud-controller-manager has said of their Nodes, and its
// expressions, by which who relies on it knows it again.
const (
	// KubeletPolicyName is that of the policy and of its binding.
	KubeletPolicyName = "ccmadm-kubelets"
	// KubeletPolicyCondition is whom it is about.
	KubeletPolicyCondition = "'system:nodes' in request.userInfo.groups"
	// KubeletPolicyCreate: no Node evades its initialization.
	KubeletPolicyCreate = "request.operation != 'CREATE' || has(object.spec.taints) && " +
		"object.spec.taints.exists(t, t.key == '" + v1alpha1.UninitializedTaint + "')"
	// KubeletPolicyAddresses: once it is initialized, its addresses are not its kubelet's to change. A kubelet in external
	// cloud mode does not.
	KubeletPolicyAddresses = "request.operation != 'UPDATE' || has(oldObject.spec.taints) && " +
		"oldObject.spec.taints.exists(t, t.key == '" + v1alpha1.UninitializedTaint + "') || " +
		"(has(object.status.addresses) ? object.status.addresses : []) == " +
		"(has(oldObject.status.addresses) ? oldObject.status.addresses : [])"
	// KubeletPolicyNames: kubelets give their Nodes no DNS names. Those in external cloud mode give addresses and a hostname.
	KubeletPolicyNames = "(has(object.status.addresses) ? object.status.addresses : [])" +
		".all(a, !(a.type in ['InternalDNS', 'ExternalDNS']) || request.operation == 'UPDATE' && " +
		"(has(oldObject.status.addresses) ? oldObject.status.addresses : []).exists(o, o == a))"
)
