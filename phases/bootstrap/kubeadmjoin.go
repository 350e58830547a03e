package bootstrap

import (
	"context"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// KubeadmJoin runs `kubeadm join`.
func KubeadmJoin() workflow.Phase {
	return workflow.Phase{
		Name:  "kubeadm",
		Short: "Run kubeadm join",
		Long:  `Runs "kubeadm join --config ` + machine.KubeadmConfig + `" and streams what it prints. On a machine that has joined, kubeadm is not run again.`,
		Run: func(ctx context.Context, d *workflow.Data) error {
			joined, err := workflow.HasJoined(ctx, d)
			if err != nil {
				return err
			}
			if joined {
				d.Sayf("unchanged: this machine has joined")
				return workflow.NoteStage(d, v1alpha1.StageFinished)
			}
			if err := record.CheckKubeletInUse(ctx, d); err != nil && !workflow.Ignored(d, finding.CheckKubeletInUse.Kind().Reason) {
				return err // a phase that is run by itself has had no preflight
			}
			args, err := joinArgs(d)
			if err != nil {
				return err
			}
			if err := workflow.NoteStage(d, v1alpha1.StageBegun); err != nil {
				return err
			}
			if err := workflow.RunKubeadm(ctx, d, args...); err != nil {
				return err
			}
			return workflow.NoteStage(d, v1alpha1.StageFinished)
		},
	}
}

// joinArgs leaves out kubeadm's preflight where an earlier run came as far as a kubelet's identity, or one to get that
// with: its files are no obstacle. The flag makes kubeadm ignore skipPhases in the file, so the user's own are added to it.
func joinArgs(d *workflow.Data) ([]string, error) {
	args := []string{"join", "--config=" + machine.KubeadmConfig}
	begun, err := passedPreflight(d)
	if err != nil {
		return nil, err
	}
	if skip := slices.Clone(d.SkipPhases); begun {
		args = append(args, "--skip-phases="+strings.Join(append([]string{"preflight"}, skip...), ","))
	} else if len(skip) > 0 {
		args = append(args, "--skip-phases="+strings.Join(skip, ","))
	}
	return append(workflow.KubeadmFlags(d, args), d.KubeadmRest...), nil
}

// passedPreflight tells whether kubeadm has got past its preflight on this machine. What a run of ours had begun with was
// not there before: checkKubeletInUse has seen to it.
func passedPreflight(d *workflow.Data) (bool, error) {
	there, err := d.Machine.Exists(machine.KubeletConf)
	if err != nil || there {
		return there, err
	}
	s, err := workflow.MachineState(d)
	if err != nil || s.Stage != v1alpha1.StageBegun {
		return false, err
	}
	return d.Machine.Exists(machine.BootstrapConf)
}
