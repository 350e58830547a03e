package bootstrap

import (
	"context"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/state"
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
		Run: func(ctx context.Context, r *workflow.Run) error {
			joined, err := workflow.HasJoined(ctx, r.Host)
			if err != nil {
				return err
			}
			if joined {
				r.Sayf("unchanged: this machine has joined")
				return workflow.NoteStage(r.Host, state.StageFinished)
			}
			if err := record.CheckKubeletInUse(ctx, r); err != nil && !workflow.Ignored(r, finding.CheckKubeletInUse.Kind().Reason) {
				return err // a phase that is run by itself has had no preflight
			}
			args, err := joinArgs(r)
			if err != nil {
				return err
			}
			if err := workflow.NoteStage(r.Host, state.StageBegun); err != nil {
				return err
			}
			if err := workflow.RunKubeadm(ctx, r.Host, args...); err != nil {
				return err
			}
			return workflow.NoteStage(r.Host, state.StageFinished)
		},
	}
}

// joinArgs leaves out kubeadm's preflight where an earlier run came as far as a kubelet's identity, or one to get that
// with: its files are no obstacle. The flag makes kubeadm ignore skipPhases in the file, so the user's own are added to it.
func joinArgs(r *workflow.Run) ([]string, error) {
	args := []string{"join", "--config=" + machine.KubeadmConfig}
	begun, err := passedPreflight(r.Env)
	if err != nil {
		return nil, err
	}
	if skip := slices.Clone(r.SkipPhases); begun {
		args = append(args, "--skip-phases="+strings.Join(append([]string{"preflight"}, skip...), ","))
	} else if len(skip) > 0 {
		args = append(args, "--skip-phases="+strings.Join(skip, ","))
	}
	return append(workflow.KubeadmFlags(r, args), r.KubeadmRest...), nil
}

// passedPreflight tells whether kubeadm has got past its preflight on this machine. What a run of ours had begun with was
// not there before: checkKubeletInUse has seen to it.
func passedPreflight(env *workflow.Env) (bool, error) {
	there, err := env.Machine.Exists(machine.KubeletConf)
	if err != nil || there {
		return there, err
	}
	s, err := workflow.MachineState(env)
	if err != nil || s.Stage != state.StageBegun {
		return false, err
	}
	return env.Machine.Exists(machine.BootstrapConf)
}
