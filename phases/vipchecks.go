package phases

import (
	"context"
	"net"
	"net/netip"
	"strconv"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/kubeadm"
	"github.com/ccmadm/ccmadm/phases/machine"
	"github.com/ccmadm/ccmadm/templates"
)

// vipPlace is the address, and the interface on which it is answered for.
func vipPlace(s *Settings) (netip.Addr, string, error) {
	addr, err := netip.ParseAddr(s.ControlPlaneVIP.Address)
	if err != nil {
		return addr, "", finding.Usagef("read controlPlaneVIP.address: %w", err)
	}
	if s.ControlPlaneVIP.Interface != "" {
		return addr, s.ControlPlaneVIP.Interface, nil
	}
	ifi, err := machine.FindInterface("", addr)
	if err != nil {
		return addr, "", finding.Usagef("controlPlaneVIP: %w", err).WithHint("--control-plane-vip-interface names one")
	}
	return addr, ifi.Name, nil
}

// setEndpoint makes the address kubeadm's controlPlaneEndpoint. Another one of the user's is a contradiction.
func setEndpoint(d *Data, s *Settings) error {
	if s.ControlPlaneVIP.Address == "" || d.Role != kubeadm.RoleInit {
		return nil
	}
	port := d.KubeadmFile.BindPort(d.Role)
	if port == 0 {
		port = kubeadm.DefaultBindPort
	}
	endpoint := net.JoinHostPort(s.ControlPlaneVIP.Address, strconv.Itoa(port))
	if said := d.KubeadmFile.ControlPlaneEndpoint(); said != "" && said != endpoint && said != s.ControlPlaneVIP.Address {
		return finding.Usagef("controlPlaneVIP.address %s: kubeadm's controlPlaneEndpoint is %s", s.ControlPlaneVIP.Address, said).
			WithHint("leave controlPlaneEndpoint out: the address becomes it")
	} else if said != "" {
		return nil
	}
	changes, err := d.KubeadmFile.SetControlPlaneEndpoint(endpoint)
	for _, c := range changes {
		d.Sayf("%s", c)
	}
	return err
}

// vipCompatible refuses an address where nobody would hold it.
func vipCompatible(settings *v1alpha1.CloudConfiguration, profile *templates.Profile) error {
	switch {
	case settings.ControlPlaneVIP.Address == "":
		return nil
	case profile.NodeAgent == nil:
		return finding.Usagef("controlPlaneVIP: provider %s has no node agent that could hold the address", profile.Name).
			WithHint("use a load balancer of the cloud as controlPlaneEndpoint")
	case settings.Mode == v1alpha1.ModeManual:
		return finding.Usagef("controlPlaneVIP: in mode %s nothing of the provider is brought by ccmadm", settings.Mode).
			WithHint("another --mode, or an address that you hold yourself")
	}
	return nil
}

// checkVIP asks the network whether somebody has the address already. A machine that was begun may have it itself.
func checkVIP(ctx context.Context, d *Data) error {
	s, err := d.Settings(ctx)
	if err != nil || s.ControlPlaneVIP.Address == "" || d.Role != kubeadm.RoleInit {
		return nil //nolint:nilerr // another check says so
	}
	state, err := machineState(d)
	if err != nil || state.Stage != "" {
		return err
	}
	addr, name, err := vipPlace(s)
	if err != nil {
		return err
	}
	ifi, err := machine.FindInterface(name, addr)
	if err != nil {
		return finding.Usagef("controlPlaneVIP: %w", err).WithHint("--control-plane-vip-interface names one of this machine")
	}
	found, err := machine.AskNeighbours(ctx, ifi, addr)
	if err != nil {
		return err
	}
	if len(found) > 0 {
		return finding.Usagef("controlPlaneVIP.address %s: %s answers for it on %s", addr, found[0].MAC, name).
			WithHint("take an address that is nobody's; `ccmadm lb probe %s` shows who has it", addr)
	}
	return nil
}
