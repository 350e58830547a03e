package config

import (
	"fmt"
	"math"
	"net/netip"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// ControlPlaneVIP is the control plane's own address. It becomes kubeadm's controlPlaneEndpoint.
type ControlPlaneVIP struct {
	// Address is a free address: one of the control planes' network or, with bgp, of none.
	// +pattern=^[0-9a-fA-F:.]+$
	Address string `json:"address,omitempty"`
	// Interface on which the address is announced. Default: the one with a subnet that contains the address.
	// +pattern=^[^/ ]{1,15}$
	Interface string `json:"interface,omitempty"`
	// BGP announces the address to routers, from every control plane whose API server answers. Default: one of them
	// answers ARP or NDP for it.
	BGP *ControlPlaneVIPBGP `json:"bgp,omitempty"`
}

// ControlPlaneVIPBGP lists the routers to which the control planes announce their address.
type ControlPlaneVIPBGP struct {
	// LocalASN is the control planes' autonomous system.
	LocalASN int64 `json:"localASN"`
	// Peers are the routers. One that a control plane cannot reach gets no session with it.
	Peers []ControlPlaneVIPPeer `json:"peers"`
}

// ControlPlaneVIPPeer is a router. Its fields are those of a BGPPeer.
//
// +oneOf=address,interface
type ControlPlaneVIPPeer struct {
	// Address of the router.
	// +pattern=^[0-9a-fA-F:.]+$
	Address string `json:"address,omitempty"`
	// Interface of the control plane with the router at its other end, in place of address: an unnumbered session.
	// +pattern=^[^/ %:]{1,15}$
	Interface string `json:"interface,omitempty"`
	// Port of the router. Default: 179.
	Port int32 `json:"port,omitempty"`
	// ASN is the router's autonomous system. Default: none with address, and with interface the one that the router says.
	ASN int64 `json:"asn,omitempty"`
	// HoldTime after which a router or control plane that sends nothing counts as failed, from 3s to 65535s. Default: 9s.
	HoldTime metav1.Duration `json:"holdTime,omitzero"`
	// MultiHop is the number of hops to a router that is not in a subnet of the control plane. Default: 1, which is in it.
	MultiHop int32 `json:"multiHop,omitempty"`
	// BFD detects a failed control plane in a fraction of the hold time.
	BFD v1alpha1.PeerBFD `json:"bfd,omitzero"`
}

// PeerSpecs returns the routers as BGPPeers. There is no graceful restart: without the pod the API server has no health
// check, and a path that is not withdrawn would lead to an API server that has failed.
func (b *ControlPlaneVIPBGP) PeerSpecs() []v1alpha1.BGPPeerSpec {
	var specs []v1alpha1.BGPPeerSpec
	for _, p := range b.Peers {
		specs = append(specs, v1alpha1.BGPPeerSpec{
			Address: p.Address, Interface: p.Interface, Port: p.Port, ASN: p.ASN, LocalASN: b.LocalASN, HoldTime: p.HoldTime,
			MultiHop: p.MultiHop, BFD: p.BFD, GracefulRestart: new(false),
		})
	}
	return specs
}

func (v *ControlPlaneVIP) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if v.Address != "" {
		errs = append(errs, ofNetwork(path.Child("address"), v.Address)...)
	}
	if v.Interface != "" && !isInterface(v.Interface) {
		errs = append(errs, field.Invalid(path.Child("interface"), v.Interface, "must be the name of a network interface"))
	}
	if v.BGP == nil {
		return errs
	}
	if v.Interface != "" {
		why := "with bgp the address is not announced on an interface"
		errs = append(errs, field.Forbidden(path.Child("interface"), why))
	}
	for i, p := range v.BGP.Peers {
		router, err := netip.ParseAddr(p.Address)
		if own, e := netip.ParseAddr(v.Address); err == nil && e == nil && own.Is4() != router.Is4() {
			errs = append(errs, field.Invalid(path.Child("bgp", "peers").Index(i).Child("address"), p.Address,
				"must be of the family of controlPlaneVIP.address: no other is in the session"))
		}
	}
	return append(errs, v.BGP.validate(path.Child("bgp"))...)
}

func (b *ControlPlaneVIPBGP) validate(path *field.Path) field.ErrorList {
	errs := within(path.Child("localASN"), b.LocalASN, 1, math.MaxUint32)
	if len(b.Peers) == 0 {
		errs = append(errs, field.Required(path.Child("peers"), "no router would learn the address"))
	}
	known := map[string]bool{}
	for i, p := range b.Peers {
		at, router := path.Child("peers").Index(i), p.Interface
		if addr, err := netip.ParseAddr(p.Address); err == nil {
			router = addr.String()
		}
		if known[router] {
			errs = append(errs, field.Duplicate(at.Child(p.knownBy()), router))
		}
		known[router] = true
		errs = append(errs, p.validate(at)...)
	}
	return errs
}

// knownBy is the field that says which router it is.
func (p *ControlPlaneVIPPeer) knownBy() string {
	if p.Interface != "" {
		return "interface"
	}
	return "address"
}

// validate checks what the API server checks of a BGPPeer. What is not set has a default.
func (p *ControlPlaneVIPPeer) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case p.Interface == "":
		errs = ofNetwork(path.Child("address"), p.Address)
	case p.Address != "":
		errs = append(errs, field.Forbidden(path.Child("interface"), "must have either address or interface"))
	case !isInterface(p.Interface) || strings.ContainsAny(p.Interface, "%:"):
		errs = append(errs, field.Invalid(path.Child("interface"), p.Interface, "must be the name of a network interface"))
	case p.MultiHop > 1:
		errs = append(errs, field.Forbidden(path.Child("multiHop"), "must be 1 with interface"))
	}
	if p.ASN != 0 || p.Interface == "" {
		errs = append(errs, within(path.Child("asn"), p.ASN, 1, math.MaxUint32)...)
	}
	errs = append(errs, within(path.Child("port"), int64(p.Port), 0, math.MaxUint16)...)
	errs = append(errs, within(path.Child("multiHop"), int64(p.MultiHop), 0, math.MaxUint8)...)
	if p.MultiHop > 1 && ptr.Deref(p.BFD.Enabled, false) {
		errs = append(errs, field.Forbidden(path.Child("bfd", "enabled"), "BFD is of a single hop"))
	}
	if p.BFD.Multiplier != 0 {
		errs = append(errs, within(path.Child("bfd", "multiplier"), int64(p.BFD.Multiplier), 2, 50)...)
	}
	for _, d := range []struct {
		path        *field.Path
		value       time.Duration
		least, most time.Duration
	}{
		{path.Child("holdTime"), p.HoldTime.Duration, 3 * time.Second, math.MaxUint16 * time.Second},
		{path.Child("bfd", "interval"), p.BFD.Interval.Duration, 10 * time.Millisecond, 10 * time.Second},
	} {
		if d.value != 0 && (d.value < d.least || d.value > d.most) {
			why := fmt.Sprintf("must be between %s and %s", d.least, d.most)
			errs = append(errs, field.Invalid(d.path, d.value.String(), why))
		}
	}
	return errs
}

// isInterface goes by the kernel's rules for names.
func isInterface(name string) bool {
	return name != "" && len(name) <= 15 && !strings.ContainsAny(name, "/ ")
}

func ofNetwork(path *field.Path, address string) field.ErrorList {
	addr, err := netip.ParseAddr(address)
	if err == nil && addr.Zone() == "" && !addr.Is4In6() && addr.IsGlobalUnicast() {
		return nil
	}
	return field.ErrorList{field.Invalid(path, address, "must be one address of a network, without a zone")}
}

func within(path *field.Path, value, least, most int64) field.ErrorList {
	if value >= least && value <= most {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, fmt.Sprintf("must be between %d and %d", least, most))}
}
