package phases

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
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
	if err := refuseOtherFirstHalf(d); err != nil {
		return err
	}
	for _, c := range changes {
		d.Sayf("%s", c)
	}
	return d.write(machine.File{Path: machine.KubeadmConfig, Data: d.KubeadmFile.Bytes(), Mode: 0o600})
}

// refuseOtherFirstHalf keeps what kubeadm's first half has made a control plane of: its second half would publish
// another configuration than that of the components that run.
func refuseOtherFirstHalf(d *Data) error {
	s, err := machineState(d)
	if err != nil || s.Stage != v1alpha1.StageControlPlane || d.Role != kubeadm.RoleInit {
		return err
	}
	data, err := d.Machine.Read(machine.KubeadmConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read what kubeadm's first half was given: %w", err)
	}
	before, err := kubeadm.Parse(machine.KubeadmConfig, data)
	if err != nil {
		return err
	}
	differ, err := before.Differences(d.KubeadmFile)
	if err != nil || len(differ) == 0 {
		return err
	}
	return finding.Refusedf("go on with another configuration than that of the running control plane: %s",
		strings.Join(differ, "; ")).
		WithHint("with the former one the same command goes on from here; for another one, `ccmadm reset` and begin anew: " +
			"no machine has joined yet. Nothing was changed")
}
