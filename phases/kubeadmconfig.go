package phases

import (
	"context"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/phases/kubeadm"
	"github.com/ccmadm/ccmadm/phases/machine"
)

func kubeadmConfig() Phase {
	return Phase{
		Name:  "kubeadm-config",
		Short: "Write the kubeadm configuration for external cloud mode",
		Long: `Reads the user's kubeadm configuration (v1beta3 or v1beta4, several documents) or kubeadm flags.
Writes ` + machine.KubeadmConfig + ` with cloud-provider=external and the node IP for this machine's kubelet, without
arguments that newer components refuse; all else is kept, comments and order included. Writes the settings that
later phases need to ` + machine.RecordFile + `. Once kubeadm has finished here, both stay as they are: they say
what it was given.`,
		Run: func(ctx context.Context, d *Data) error {
			done, err := finished(d)
			if err != nil {
				return err
			}
			if done && !d.Single {
				d.Sayf("unchanged: kubeadm has finished here, with %s", machine.KubeadmConfig)
				return nil
			}
			s, err := d.Settings(ctx)
			if err != nil {
				return err
			}
			if err := writeKubeadmConfig(ctx, d, s); err != nil {
				return err
			}
			return writeRecord(d, newRecord(d, s))
		},
	}
}

func writeKubeadmConfig(ctx context.Context, d *Data, s *Settings) error {
	v, err := d.KubeadmVersion(ctx)
	if err != nil {
		return err
	}
	flags := kubeadm.KubeletFlags{}
	if flags.NodeIP, err = nodeIPToSet(ctx, d, s); err != nil {
		return err
	}
	if flags.ProviderID, err = kubeletProviderID(ctx, d, s); err != nil {
		return err
	}
	if err := setEndpoint(d, s); err != nil {
		return err
	}
	changes, err := d.KubeadmFile.SetExternal(d.Role, flags, int(v.Minor()))
	if err != nil {
		return &finding.Error{Code: finding.ExitPreflight, Err: err}
	}
	for _, c := range changes {
		d.Sayf("%s", c)
	}
	return d.write(machine.File{Path: machine.KubeadmConfig, Data: d.KubeadmFile.Bytes(), Mode: 0o600})
}
