package bootstrap

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/kubelet"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// vipInterface is where the address is answered for.
func vipInterface(s *settings.Settings, addr netip.Addr) (string, error) {
	if s.ControlPlaneVIP.Interface != "" {
		return s.ControlPlaneVIP.Interface, nil
	}
	ifi, err := machine.FindInterface("", addr)
	if err != nil {
		return "", finding.Usagef("controlPlaneVIP: %w", err).
			WithHint("--control-plane-vip-interface names one; with controlPlaneVIP.bgp routers learn where the address is")
	}
	return ifi.Name, nil
}

// checkVIP asks the network whether somebody has the address already. A machine that was begun may have it itself.
func checkVIP(ctx context.Context, r *workflow.Run) error {
	s, err := r.Settings(ctx)
	if err != nil || s.ControlPlaneVIP.Address == "" || r.Role != kubeadm.RoleInit {
		return nil //nolint:nilerr // another check says so
	}
	state, err := workflow.MachineState(r.Env)
	if err != nil || state.Stage != "" {
		return err
	}
	addr, err := netip.ParseAddr(s.ControlPlaneVIP.Address)
	if err != nil {
		return finding.Usagef("read controlPlaneVIP.address: %w", err)
	}
	if s.ControlPlaneVIP.BGP != nil {
		own, err := vipSelf(r.Host)
		if err != nil {
			return err
		}
		if own.Address.Is4() != addr.Is4() {
			return finding.Usagef("controlPlaneVIP.address %s: this machine's API server is at %s, and its sessions announce "+
				"addresses of that family", addr, own.Address).WithHint("take an address of the other family, or advertise another one")
		}
		return checkAnnouncedVIP(ctx, addr, kubelet.VIPEndpoint(r.Host, s))
	}
	name, err := vipInterface(s, addr)
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
			WithHint("take a free address; `ccmadm lb probe %s` shows who has it", addr)
	}
	return nil
}

// checkAnnouncedVIP wants an address that only routers have a way to. That nobody answers there is no proof that it is
// nobody's, and all that can be asked.
func checkAnnouncedVIP(ctx context.Context, addr netip.Addr, at string) error {
	ifi, err := machine.FindInterface("", addr)
	if err == nil {
		return finding.Usagef("controlPlaneVIP.address %s: it is in the subnet of %s, whose machines ask no router for it",
			addr, ifi.Name).WithHint("with controlPlaneVIP.bgp take an address of no subnet")
	}
	if !errors.Is(err, machine.ErrNoSubnet) {
		return err
	}
	if vipAnswers(ctx, at) {
		return finding.Usagef("controlPlaneVIP.address %s: another machine answers at %s", addr, at).
			WithHint("take a free address")
	}
	return nil
}

// vipAnswers says whether connections to HOST:PORT come about.
func vipAnswers(ctx context.Context, at string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", at)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}
