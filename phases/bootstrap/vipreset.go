package bootstrap

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// handOverTime is how long the pod of the control plane's own address may take to end, once its manifest is gone.
const handOverTime = 15 * time.Second

// handOverVIP lets the pod give the address to another control plane while this machine's API server still answers:
// kubeadm kills all pods. Where nobody takes it, kubeadm still needs it to read the cluster's configuration, and it is
// this machine's until the end of the reset. Without --force kubeadm has yet to ask whether it is meant.
func handOverVIP(ctx context.Context, env *workflow.Env) error {
	vip, addr, err := recordedVIP(env.Machine)
	if err != nil || !addr.IsValid() || !env.Force || env.DryRun {
		return err
	}
	if runs, err := env.Machine.ServiceActive(ctx, "kubelet"); err != nil || !runs {
		return err
	}
	if held, err := vipOnLoopback(ctx, env.Machine, addr); err != nil || !held {
		return err
	}
	if err := workflow.Remove(env, machine.VIPManifest); err != nil {
		return err
	}
	if gone, err := vipLeaves(ctx, env.Machine, addr); err != nil || !gone {
		return err // it goes with kubeadm's reset
	}
	if taken, err := vipTaken(ctx, env.Machine, vip, addr); err != nil || taken {
		return err
	}
	return changeLoopback(ctx, env.Machine, "add", addr)
}

// vipTaken says whether another control plane has the address.
func vipTaken(ctx context.Context, m *machine.Machine, vip config.ControlPlaneVIP, addr netip.Addr) (bool, error) {
	if vip.BGP != nil {
		server, err := workflow.ControlPlaneURL(m.Path(machine.AdminConf))
		if err != nil {
			return false, err
		}
		at, err := url.Parse(server)
		if err != nil {
			return false, fmt.Errorf("read the server of %s: %w", machine.AdminConf, err)
		}
		return vipAnswers(ctx, at.Host), nil
	}
	ifi, err := machine.FindInterface(vip.Interface, addr)
	if err != nil {
		return false, err
	}
	found, err := machine.AskNeighbours(ctx, ifi, addr)
	return len(found) > 0, err
}

// vipLeaves waits until the pod has taken the address from lo.
func vipLeaves(ctx context.Context, m *machine.Machine, addr netip.Addr) (bool, error) {
	for end := time.Now().Add(handOverTime); time.Now().Before(end); {
		held, err := vipOnLoopback(ctx, m, addr)
		if err != nil || !held {
			return err == nil, err
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return false, nil
}

// releaseVIP takes the address from lo where a pod that was killed has left it. Stays tells whether it may still be there, and the
// machine's record says which it is.
func releaseVIP(ctx context.Context, m *machine.Machine) (stays bool, err error) {
	_, addr, err := recordedVIP(m)
	if err == nil && addr.IsValid() {
		var held bool
		if held, err = vipOnLoopback(ctx, m, addr); err == nil && held {
			err = changeLoopback(ctx, m, "delete", addr)
		}
		stays = err != nil
	}
	if err != nil {
		err = fmt.Errorf("take the control plane's address from lo: %w", err)
	}
	return stays, err
}

// recordedVIP is the address that this machine may hold; none where it is no control plane that has one.
func recordedVIP(m *machine.Machine) (config.ControlPlaneVIP, netip.Addr, error) {
	var vip config.ControlPlaneVIP
	elects, err := m.Exists(machine.VIPMembers)
	if err != nil {
		return vip, netip.Addr{}, err
	}
	rec, err := m.Record()
	if err != nil && !elects {
		return vip, netip.Addr{}, nil // a reset works on what is half broken
	}
	if err != nil || rec == nil {
		return vip, netip.Addr{}, err
	}
	vip = rec.Configuration.ControlPlaneVIP
	if vip.Address == "" || vip.BGP == nil && !elects {
		return vip, netip.Addr{}, nil
	}
	addr, err := netip.ParseAddr(vip.Address)
	if err != nil {
		return vip, addr, fmt.Errorf("read the record of this machine: %w", err)
	}
	return vip, addr, nil
}

func onlyThis(addr netip.Addr) string { return netip.PrefixFrom(addr, addr.BitLen()).String() }

func vipOnLoopback(ctx context.Context, m *machine.Machine, addr netip.Addr) (bool, error) {
	listed, err := m.Output(ctx, "ip", "-o", "address", "show", "dev", "lo", "to", onlyThis(addr))
	return len(bytes.TrimSpace(listed)) > 0, err
}

func changeLoopback(ctx context.Context, m *machine.Machine, how string, addr netip.Addr) error {
	var out bytes.Buffer
	args := []string{"address", how, onlyThis(addr), "dev", "lo"}
	if err := m.Runner.Run(ctx, machine.Command{Name: "ip", Args: args, Out: &out, Err: &out, Changes: true}); err != nil {
		return fmt.Errorf("run ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(out.String()))
	}
	return nil
}
