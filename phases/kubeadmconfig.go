package phases

import (
	"context"
	"slices"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/kubeadm"
)

func kubeadmConfig() Phase {
	return Phase{
		Name:  "kubeadm-config",
		Short: "Write the kubeadm configuration for external cloud mode",
		Long: `Reads the user's kubeadm configuration (v1beta3 or v1beta4, several documents) or kubeadm flags.
Writes ` + KubeadmConfig + ` with cloud-provider=external and the node IP for this machine's kubelet, without
arguments that newer components refuse; all else is kept, comments and order included. Writes the settings that
later phases need to ` + RecordFile + `.`,
		Run: func(ctx context.Context, d *Data) error {
			settings, err := d.Settings(ctx)
			if err != nil {
				return err
			}
			if err := d.writeKubeadmConfig(ctx, settings); err != nil {
				return err
			}
			return d.writeRecord(ctx)
		},
	}
}

func (d *Data) writeKubeadmConfig(ctx context.Context, settings *v1alpha1.CloudConfiguration) error {
	v, err := d.kubeadmVersion()
	if err != nil {
		return err
	}
	flags := kubeadm.KubeletFlags{}
	if flags.NodeIP, err = d.effectiveNodeIP(ctx, settings); err != nil {
		return err
	}
	if flags.ProviderID, err = d.kubeletProviderID(ctx); err != nil {
		return err
	}
	changes, err := d.Kubeadm.SetExternal(d.Role, flags, int(v.Minor()))
	if err != nil {
		return &finding.Error{Code: finding.ExitPreflight, Err: err}
	}
	for _, c := range changes {
		d.Sayf("%s", c)
	}
	return d.write(File{Path: KubeadmConfig, Data: d.Kubeadm.Bytes(), Mode: 0o600})
}

// effectiveNodeIP leaves the flag out where the administrator has set it in a file that wins over kubeadm's.
func (d *Data) effectiveNodeIP(ctx context.Context, settings *v1alpha1.CloudConfiguration) (string, error) {
	uses, err := FindKubeletFlags("/", "node-ip")
	if err != nil {
		return "", err
	}
	ours := func(u FlagUse) bool { return u.File == "/var/lib/kubelet/kubeadm-flags.env" }
	if uses = slices.DeleteFunc(uses, ours); len(uses) > 0 {
		d.Sayf("node IP: %s stands and wins", uses[len(uses)-1])
		return "", nil
	}
	ip, err := d.nodeIP(ctx, settings)
	if err != nil {
		return "", &finding.Error{Code: finding.ExitPreflight, Err: err}
	}
	return ip, nil
}

// writeRecord keeps what this run was told, for phases that are called by themselves later.
func (d *Data) writeRecord(ctx context.Context) error {
	rec, err := d.newRecord(ctx)
	if err != nil {
		return err
	}
	data, err := rec.Encode()
	if err != nil {
		return err
	}
	return d.write(File{Path: RecordFile, Data: data, Mode: 0o600})
}
