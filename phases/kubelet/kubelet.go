package kubelet

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/templates"
)

// Phase writes the flags of a machine's kubelet for external cloud mode, where it joins or boots.
func Phase() workflow.Phase {
	return workflow.Phase{
		Name:  "kubelet",
		Short: "Set this machine's kubelet to external cloud mode",
		Long: `With a cluster to join (arguments or --config): writes ` + machine.KubeadmConfig + `, the JoinConfiguration with
cloud-provider=external and the node IP among the kubelet's arguments.

Without one, for a plain "kubeadm join" that comes later: writes ` + machine.KubeletEnvFile + ` and the drop-in
` + machine.KubeletDropIn + `. The flags stand before those of
kubeadm and of the administrator, so an explicit one in kubeadm-flags.env, /etc/default/kubelet or /etc/sysconfig/kubelet
wins. With --install-unit, also a unit that does this at each boot before the kubelet starts, for machine images.`,
		Run: func(ctx context.Context, r *workflow.Run) error {
			if err := workflow.RunChecks(ctx, r, NodeChecks()); err != nil {
				return err
			}
			s, err := r.Settings(ctx)
			if err != nil {
				return err
			}
			if r.KubeadmFile.CanDiscover() {
				return WriteKubeadmConfig(ctx, r.Host, s)
			}
			return writeDropIn(ctx, r, s)
		},
	}
}

// writeDropIn gives the flags to whatever starts the kubelet next. The values stand in an environment file rather
// than in the drop-in, since systemd reads that at each start: no daemon-reload is needed when the address changes.
func writeDropIn(ctx context.Context, r *workflow.Run, s *settings.Settings) error {
	if err := CheckKubeletFlags(ctx, r); err != nil {
		return &finding.Error{Code: finding.ExitPreflight, Err: err}
	}
	args, err := dropInArgs(ctx, r.Host, s)
	if err != nil {
		return err
	}
	if err := r.Write(machine.File{Path: machine.KubeletEnvFile, Data: kubeletEnv(args), Mode: 0o644}); err != nil {
		return err
	}
	changed, err := workflow.WriteChanged(r.Env, machine.File{Path: machine.KubeletDropIn, Data: templates.KubeletDropIn(), Mode: 0o644})
	if err != nil {
		return err
	}
	if r.InstallUnit {
		return installUnit(ctx, r.Env)
	}
	if !changed {
		return nil
	}
	return r.Machine.DaemonReload(ctx)
}

// kubeletEnv is the environment file of the drop-in.
func kubeletEnv(args string) []byte {
	const head = "# Written by ccmadm: external cloud mode. Flags that come later on the kubelet's command line win.\n"
	return fmt.Appendf(nil, "%s%s=%q\n", head, configArgs, args)
}

func dropInArgs(ctx context.Context, h *workflow.Host, s *settings.Settings) (string, error) {
	ip, err := record.NodeIPToSet(ctx, h, s)
	if err != nil {
		return "", err
	}
	args, err := kubeletConfigArgs(ctx, h.Machine)
	if err != nil {
		return "", err
	}
	args += " --cloud-provider=external"
	if ip != "" {
		args += " --node-ip=" + ip
	}
	id, err := kubeletProviderID(ctx, h, s)
	if err != nil {
		return "", err
	}
	if id != "" {
		args += " --provider-id=" + id
	}
	return args, nil
}

// installUnit makes the phase run before every start of the kubelet.
func installUnit(ctx context.Context, env *workflow.Env) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if err := env.Write(machine.File{Path: machine.KubeletUnit, Data: templates.KubeletUnit(self), Mode: 0o644}); err != nil {
		return err
	}
	// `systemctl enable` works without a running manager too, as in the chroot where an image is built.
	if err := env.Machine.Systemctl(ctx, "enable", "--quiet", machine.KubeletUnit); err != nil {
		return fmt.Errorf("enable %s: %w", machine.KubeletUnit, err)
	}
	return env.Machine.DaemonReload(ctx)
}

// configArgs is the variable of kubeadm's unit that comes before kubeadm's own and the administrator's flags.
const configArgs = "KUBELET_CONFIG_ARGS"

// kubeletConfigArgs is what the unit gives in that variable without our drop-in.
func kubeletConfigArgs(ctx context.Context, m *machine.Machine) (string, error) {
	out, err := m.Output(ctx, "systemctl", "cat", "kubelet")
	if err != nil {
		return "", finding.Preflightf("read the kubelet's unit: %w", err).
			WithHint("the kubelet's package with kubeadm's drop-in 10-kubeadm.conf must be installed")
	}
	unit := string(out)
	if !strings.Contains(unit, "$"+configArgs) {
		return "", finding.Preflightf("set kubelet flags: its unit does not use $%s as kubeadm's does", configArgs)
	}
	args, set, err := m.UnitVariable(unit, configArgs, machine.KubeletEnvFile)
	if err != nil {
		return "", err
	}
	if !set {
		return "", finding.Preflightf("set kubelet flags: its unit uses $%s and does not set it", configArgs)
	}
	return strings.TrimSpace(args), nil
}
