package record

import (
	"context"
	"net/netip"
	"slices"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/templates"
)

// NodeIP turns the policy into the value of the kubelet's --node-ip. Without that flag a kubelet in external mode
// publishes no address until the cloud-controller-manager does (kubernetes/kubernetes#121028), and onprem has no
// other source to ask. The pod subnets tell which families the cluster has. An address in a CIDR is never the control plane's own,
// which a run that is resumed may find on this machine.
func NodeIP(ctx context.Context, h *workflow.Host, c *config.CloudConfiguration, podSubnet string) (string, error) {
	switch c.NodeIP {
	case config.NodeIPDefault:
		return anyAddress(ctx, h, podSubnet)
	case config.NodeIPAuto, "":
		return autoNodeIP(ctx, h, podSubnet)
	}
	if prefix, err := netip.ParsePrefix(c.NodeIP); err == nil {
		vip, _ := netip.ParseAddr(c.ControlPlaneVIP.Address) // what is not valid was refused
		addr, err := h.Machine.AddressIn(prefix, vip)
		return addr.String(), err
	}
	addrs, err := config.ParseAddresses(c.NodeIP)
	if err != nil {
		return "", err
	}
	return c.NodeIP, h.Machine.CheckLocal(addrs)
}

// anyAddress makes the kubelet take that of the default route, of the cluster's family, whenever it starts.
func anyAddress(ctx context.Context, h *workflow.Host, podSubnet string) (string, error) {
	v4, v6 := templates.IPFamilies(podSubnet)
	if !v4 && !v6 {
		ip, err := primaryAddress(ctx, h)
		if err != nil {
			return "", err
		}
		v6 = ip.Is6()
	}
	if v6 && !v4 {
		return "::", nil
	}
	return "0.0.0.0", nil
}

// autoNodeIP is the advertise address on a control plane, elsewhere the source of the route to the API server, and
// in a dual-stack cluster an address of the other family on the same interface as well.
func autoNodeIP(ctx context.Context, h *workflow.Host, podSubnet string) (string, error) {
	ip, err := primaryAddress(ctx, h)
	if err != nil {
		return "", err
	}
	if v4, v6 := templates.IPFamilies(podSubnet); !v4 || !v6 {
		return ip.String(), nil
	}
	other, err := h.Machine.OtherFamily(ip)
	if err != nil {
		return "", err
	}
	return ip.String() + "," + other.String(), nil
}

func primaryAddress(ctx context.Context, h *workflow.Host) (netip.Addr, error) {
	if workflow.IsControlPlane(h) {
		return h.Machine.AdvertiseAddress(h.KubeadmFile.AdvertiseAddress(h.Role))
	}
	if !h.KubeadmFile.CanDiscover() {
		return h.Machine.AdvertiseAddress("")
	}
	server, err := kubeadm.JoinServer(ctx, h.KubeadmFile)
	if err != nil {
		return netip.Addr{}, err
	}
	return h.Machine.SourceAddress(ctx, server)
}

// NodeIPToSet is empty where the administrator has set the flag in a file that wins over kubeadm's.
func NodeIPToSet(ctx context.Context, h *workflow.Host, s *settings.Settings) (string, error) {
	uses, err := h.Machine.KubeletFlags("node-ip")
	if err != nil {
		return "", err
	}
	kubeadms := h.Machine.Path(machine.KubeadmFlags)
	if uses = slices.DeleteFunc(uses, func(u machine.FlagUse) bool { return u.File == kubeadms }); len(uses) > 0 {
		h.Sayf("node IP: %s stands and wins", uses[len(uses)-1])
		return "", nil
	}
	ip, err := NodeIP(ctx, h, &s.CloudConfiguration, s.PodSubnet)
	if err != nil {
		return "", finding.Preflightf("%w", err)
	}
	return ip, nil
}

// GivenKubeletArg is what the user has set, in kubeadm's configuration or in a file that feeds the kubelet.
func GivenKubeletArg(h *workflow.Host, name string) (string, error) {
	if value, ok := h.KubeadmFile.KubeletArg(h.Role, name); ok {
		return value, nil
	}
	uses, err := h.Machine.KubeletFlags(name)
	if err != nil || len(uses) == 0 {
		return "", err
	}
	return uses[len(uses)-1].Value, nil
}
