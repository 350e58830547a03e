package bootstrap

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/nodestatus"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// ControlPlaneVIP writes the static pod that holds the control plane's own address, on the machine that makes the
// cluster.
func ControlPlaneVIP() workflow.Phase {
	return workflow.Phase{
		Name:          "control-plane-vip",
		WithoutServer: true,
		Short:         "Hold the control plane's own address, where there is one",
		Long: `Reads the settings: --control-plane-vip, or controlPlaneVIP of the configuration. Writes the static pod
` + machine.VIPManifest + `, which announces the address to the routers of controlPlaneVIP.bgp
while this machine's API server answers. Without bgp it answers ARP or NDP for it while a majority of the control planes
agrees, too; ` + machine.VIPMembers + ` has the control planes that are known,
and because of ` + machine.VIPSysctl + ` the kernel leaves ARP for it to the pod.`,
		Run: func(ctx context.Context, r *workflow.Run) error {
			s, err := r.Settings(ctx)
			if err != nil || s.ControlPlaneVIP.Address == "" {
				return err
			}
			self, err := vipSelf(r.Host)
			if err != nil {
				return err
			}
			return writeVIP(ctx, r.Host, s, self, []vipMember{self})
		},
	}
}

// JoinControlPlaneVIP is ControlPlaneVIP on a control plane that joins: it knows the others, and waits for its turn.
func JoinControlPlaneVIP() workflow.Phase {
	p := ControlPlaneVIP()
	p.Run = func(ctx context.Context, r *workflow.Run) error {
		s, err := r.Settings(ctx)
		if err != nil || s.ControlPlaneVIP.Address == "" || !workflow.IsControlPlane(r.Host) {
			return err
		}
		self, err := vipSelf(r.Host)
		if err != nil {
			return err
		}
		members := []vipMember{self}
		if s.ControlPlaneVIP.BGP == nil && !r.DryRun {
			if members, err = controlPlanes(ctx, r.Env, self); err != nil {
				return err
			}
		}
		return writeVIP(ctx, r.Host, s, self, members)
	}
	return p
}

// vipMember is a control plane that may have the address, in the file that the static pod reads.
type vipMember struct {
	Name    string     `json:"name"`
	Address netip.Addr `json:"address"`
}

// vipSelf is this machine, by the address that kubeadm advertises.
func vipSelf(h *workflow.Host) (vipMember, error) {
	name, err := workflow.NodeName(h)
	if err != nil {
		return vipMember{}, err
	}
	addr, err := h.Machine.AdvertiseAddress(h.KubeadmFile.AdvertiseAddress(h.Role))
	if err != nil {
		return vipMember{}, fmt.Errorf("find this machine's address: %w", err)
	}
	return vipMember{Name: name, Address: addr}, nil
}

// controlPlanes are those that the cluster has, with this one: the pod must not begin as the only one of a majority.
func controlPlanes(ctx context.Context, env *workflow.Env, self vipMember) ([]vipMember, error) {
	client, err := workflow.Connect(env, machine.AdminConf)
	if err != nil {
		return nil, err
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.ControlPlaneLabel})
	if err != nil {
		return nil, fmt.Errorf("list control planes: %w", err)
	}
	slices.SortStableFunc(nodes.Items, func(a, b corev1.Node) int { // as the pod does: the oldest decides in case of a draw
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	var members []vipMember
	for _, n := range nodes.Items {
		if ips := nodestatus.InternalIPs(&n); n.Name != self.Name && len(ips) > 0 {
			members = append(members, vipMember{Name: n.Name, Address: ips[0]})
		}
	}
	return append(members, self), nil
}

// writeVIP writes the pod's manifest last. By BGP it needs nothing beside it.
func writeVIP(ctx context.Context, h *workflow.Host, s *settings.Settings, self vipMember, members []vipMember) error {
	addr, err := netip.ParseAddr(s.ControlPlaneVIP.Address)
	if err != nil {
		return finding.Usagef("read controlPlaneVIP.address: %w", err)
	}
	vip := manifests.VIP{
		NodeName: self.Name, NodeAddress: self.Address, Address: addr, BGP: s.ControlPlaneVIP.BGP, Port: workflow.APIServerPort(h),
		MembersFile: machine.VIPMembers, CertificatesDir: s.CertificatesDir, Kubeconfig: machine.SchedulerConf,
	}
	if vip.BGP == nil {
		if vip.Interface, err = vipInterface(s, addr); err != nil {
			return err
		}
	}
	v, err := manager.NamelessValues(h.Env, s, nil)
	if err != nil {
		return err
	}
	pod, err := manifests.VIPPod(s.Profile, v, vip)
	if err != nil {
		return err
	}
	if vip.BGP == nil {
		if err := writeMembers(h.Env, members); err != nil {
			return err
		}
		if err := leaveARP(ctx, h.Env, vip.Interface); err != nil {
			return err
		}
	}
	return h.Write(machine.File{Path: machine.VIPManifest, Data: manager.Seal(pod), Mode: 0o600})
}

// writeMembers writes them only once: the pod keeps them up to date.
func writeMembers(env *workflow.Env, members []vipMember) error {
	there, err := env.Machine.Exists(machine.VIPMembers)
	if err != nil || there {
		return err
	}
	data, err := json.Marshal(members)
	if err != nil {
		return fmt.Errorf("encode the control planes: %w", err)
	}
	return env.Write(machine.File{Path: machine.VIPMembers, Data: append(data, '\n'), Mode: 0o600})
}

// leaveARP keeps the kernel from answering for an address that is on lo, and from naming it as a sender: clients would
// learn this machine's MAC from the last packets of one that has lost the address. A container may not write sysctls.
func leaveARP(ctx context.Context, env *workflow.Env, ifi string) error {
	text := fmt.Sprintf("# Written by ccmadm for the control plane's own address.\n"+
		"net/ipv4/conf/%[1]s/arp_ignore = 1\nnet/ipv4/conf/%[1]s/arp_announce = 2\n", ifi)
	if err := env.Write(machine.File{Path: machine.VIPSysctl, Data: []byte(text), Mode: 0o644}); err != nil {
		return err
	}
	var out bytes.Buffer
	args := []string{"-q", "-p", env.Machine.Path(machine.VIPSysctl)}
	if err := env.Machine.Runner.Run(ctx, machine.Command{Name: "sysctl", Args: args, Out: &out, Err: &out, Changes: true}); err != nil {
		return fmt.Errorf("run sysctl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(out.String()))
	}
	return nil
}
