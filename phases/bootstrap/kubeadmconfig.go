package bootstrap

import (
	"context"

	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/kubelet"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// KubeadmConfig writes kubeadm's configuration for external cloud mode, and this machine's copy of the settings.
func KubeadmConfig() workflow.Phase {
	return workflow.Phase{
		Name:  "kubeadm-config",
		Short: "Write the kubeadm configuration for external cloud mode",
		Long: `Reads the user's kubeadm configuration (v1beta3 or v1beta4, several documents) or kubeadm flags.
Writes ` + machine.KubeadmConfig + ` with cloud-provider=external and the node IP for this machine's kubelet, without
arguments that newer components refuse; all else is kept, comments and order included. Writes the settings that
later phases need to ` + machine.RecordFile + `. Once kubeadm has finished here, both stay as they are: they say
what it was given.`,
		Run: func(ctx context.Context, r *workflow.Run) error {
			done, err := workflow.KubeadmFinished(r.Host)
			if err != nil {
				return err
			}
			if done && !r.Single {
				r.Sayf("unchanged: kubeadm has finished here, with %s", machine.KubeadmConfig)
				return nil
			}
			s, err := r.Settings(ctx)
			if err != nil {
				return err
			}
			if err := kubelet.WriteKubeadmConfig(ctx, r.Host, s); err != nil {
				return err
			}
			return record.WriteRecord(r.Env, manager.NewRecord(r, s))
		},
	}
}
