package phases

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/kubeadm"

	"github.com/ccmadm/ccmadm/templates"
)

func kubelet() Phase {
	return Phase{
		Name:  "kubelet",
		Short: "Set this machine's kubelet to external cloud mode",
		Long: `With a cluster to join (arguments or --config): writes ` + KubeadmConfig + `, the JoinConfiguration with
cloud-provider=external and the node IP among the kubelet's arguments.

Without one, for a plain "kubeadm join" that comes later: writes ` + KubeletEnvFile + ` and the drop-in
` + KubeletDropIn + `. The flags stand before those of
kubeadm and of the administrator, so an explicit one in kubeadm-flags.env, /etc/default/kubelet or /etc/sysconfig/kubelet
wins. With --install-unit, also a unit that does this at each boot before the kubelet starts, for machine images.`,
		Run: func(ctx context.Context, d *Data) error {
			settings, err := d.Settings(ctx)
			if err != nil {
				return err
			}
			if err := runChecks(ctx, d, nodeChecks()); err != nil {
				return err
			}
			if d.Kubeadm.CanDiscover() {
				return d.writeKubeadmConfig(ctx, settings)
			}
			return d.writeDropIn(ctx, settings)
		},
	}
}

// writeDropIn gives the flags to whatever starts the kubelet next. The values stand in an environment file rather
// than in the drop-in, since systemd reads that at each start: no daemon-reload is needed when the address changes.
func (d *Data) writeDropIn(ctx context.Context, settings *v1alpha1.CloudConfiguration) error {
	if err := checkKubeletFlags(ctx, d); err != nil {
		return &finding.Error{Code: finding.ExitPreflight, Err: err}
	}
	nodeIP, err := d.effectiveNodeIP(ctx, settings)
	if err != nil {
		return err
	}
	base, err := kubeletConfigArgs(ctx)
	if err != nil {
		return err
	}
	args := base + " --cloud-provider=external"
	if nodeIP != "" {
		args += " --node-ip=" + nodeIP
	}
	providerID, err := d.kubeletProviderID(ctx)
	if err != nil {
		return err
	}
	if providerID != "" {
		args += " --provider-id=" + providerID
	}
	env := fmt.Sprintf("# Written by ccmadm: external cloud mode. Flags that come later on the kubelet's command line win.\n%s=%q\n", configArgs, args)
	if err := d.write(File{Path: KubeletEnvFile, Data: []byte(env), Mode: 0o644}); err != nil {
		return err
	}
	changed, err := d.Files.Write(File{Path: KubeletDropIn, Data: templates.KubeletDropIn(), Mode: 0o644})
	if err != nil {
		return err
	}
	d.sayChange(changed, KubeletDropIn)
	if d.InstallUnit {
		return d.installUnit(ctx)
	}
	if !changed {
		return nil
	}
	return d.systemctl(ctx, "daemon-reload")
}

// installUnit makes the phase run before every start of the kubelet.
func (d *Data) installUnit(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if err := d.write(File{Path: KubeletUnit, Data: templates.KubeletUnit(self), Mode: 0o644}); err != nil {
		return err
	}
	if d.DryRun {
		d.Sayf("would enable %s", KubeletUnit)
		return nil
	}
	// `systemctl enable` works without a running manager too, as in the chroot where an image is built.
	if out, err := exec.CommandContext(ctx, "systemctl", "enable", "--quiet", KubeletUnit).CombinedOutput(); err != nil {
		return fmt.Errorf("enable %s: %w: %s", KubeletUnit, err, kubeadm.LastLine(out))
	}
	return d.systemctl(ctx, "daemon-reload")
}

// configArgs is the variable of kubeadm's unit that comes before kubeadm's own and the administrator's flags.
const configArgs = "KUBELET_CONFIG_ARGS"

var configArgsPattern = regexp.MustCompile(`Environment=.?` + configArgs + `=([^"']*)`)

// kubeletConfigArgs is what the unit gives in that variable without our drop-in.
func kubeletConfigArgs(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "systemctl", "cat", "kubelet").Output()
	if err != nil {
		return "", finding.Preflightf("read the kubelet's unit: %w", err).
			WithHint("the kubelet's package with kubeadm's drop-in 10-kubeadm.conf must be installed")
	}
	unit := string(out)
	if !strings.Contains(unit, "$"+configArgs) {
		return "", &finding.Error{Code: finding.ExitPreflight, Err: errors.New("set kubelet flags: its unit does not use $" + configArgs + " as kubeadm's does")}
	}
	matches := configArgsPattern.FindAllStringSubmatch(unit, -1)
	if len(matches) == 0 {
		return "", &finding.Error{Code: finding.ExitPreflight, Err: errors.New("set kubelet flags: its unit uses $" + configArgs + " and does not set it")}
	}
	return strings.TrimSpace(matches[len(matches)-1][1]), nil
}
