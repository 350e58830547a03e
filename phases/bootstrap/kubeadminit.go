package bootstrap

import (
	"context"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// KubeadmControlPlane runs the first half of `kubeadm init`, up to the API server that answers.
func KubeadmControlPlane() workflow.Phase {
	return workflow.Phase{
		Name:  "kubeadm-control-plane",
		Short: "Run kubeadm up to the answering API server",
		Long: `Runs "kubeadm init --config ` + machine.KubeadmConfig + `" with the phases from preflight to wait-control-plane, and streams what it prints.
Where ` + machine.StateFile + ` says that this half has ended well, kubeadm is not run again, whatever the API server answers; where
an earlier run was cut short before that, kubeadm's preflight is left out, since it would take its own files for
another cluster's.`,
		Run: func(ctx context.Context, r *workflow.Run) error {
			s, err := workflow.MachineState(r.Env)
			if err != nil {
				return err
			}
			done, err := workflow.KubeadmFinished(r.Host)
			if err != nil {
				return err
			}
			if done || s.Stage == state.StageControlPlane {
				r.Sayf("unchanged: kubeadm has made this control plane")
				return nil
			}
			if s.Stage != "" {
				if err := workflow.SameMachine(r.Host, s); err != nil {
					return err
				}
			}
			if r.DryRun { // kubeadm's own needs both halves in one process: it keeps what it would have written in memory
				return workflow.RunKubeadm(ctx, r.Host, workflow.InitHalf(r, []string{"show-join-command"})...)
			}
			if s.Stage == "" {
				if err := kubeadmPreflight(ctx, r); err != nil {
					return err
				}
			}
			if err := workflow.NoteStage(r.Host, state.StageBegun); err != nil {
				return err
			}
			skip := append([]string{"preflight"}, kubeadm.SecondHalf()...)
			if err := workflow.RunKubeadm(ctx, r.Host, workflow.InitHalf(r, skip)...); err != nil {
				return err
			}
			return workflow.NoteStage(r.Host, state.StageControlPlane)
		},
	}
}

// kubeadmPreflight runs before anything is noted: what it refuses has not begun, and it is asked again by the next run. A
// phase that is run by itself has had no preflight of ours.
func kubeadmPreflight(ctx context.Context, r *workflow.Run) error {
	if err := record.CheckKubeletInUse(ctx, r); err != nil && !workflow.Ignored(r, finding.CheckKubeletInUse.Kind().Reason) {
		return err
	}
	if slices.Contains(r.SkipPhases, "preflight") {
		return nil
	}
	return workflow.RunKubeadm(ctx, r.Host, workflow.KubeadmFlags(r, []string{"init", "phase", "preflight", "--config=" + machine.KubeadmConfig})...)
}

// KubeadmFinish runs the second half of `kubeadm init`.
func KubeadmFinish() workflow.Phase {
	return workflow.Phase{
		Name:  "kubeadm-finish",
		Short: "Run the rest of kubeadm's phases",
		Long: `Runs "kubeadm init --config ` + machine.KubeadmConfig + `" with the phases from upload-config to addon. Once they have ended well, which is
kept in ` + machine.StateFile + `, they are never run again: they would undo what has been changed in the cluster since.`,
		Run: func(ctx context.Context, r *workflow.Run) error {
			done, err := workflow.KubeadmFinished(r.Host)
			if err != nil {
				return err
			}
			if done {
				r.Sayf("unchanged: kubeadm has finished here")
				return nil
			}
			s, err := workflow.MachineState(r.Env)
			if err != nil {
				return err
			}
			if s.Stage != state.StageControlPlane && !r.DryRun {
				return finding.Refusedf("run the rest of kubeadm's phases: %s does not record that phase kubeadm-control-plane has finished", machine.StateFile).
					WithHint("run `ccmadm init phase kubeadm-control-plane` first; if you run kubeadm yourself, run its remaining phases yourself, too")
			}
			args := workflow.InitHalf(r, append(slices.Clone(kubeadm.FirstHalf()), "show-join-command"))
			if r.DryRun {
				r.Sayf("would run kubeadm %s", strings.Join(kubeadm.MaskArgs(args), " "))
				return nil
			}
			var key keyReader
			if err := workflow.Stream(ctx, r.Env, args, machine.Command{Args: args, Changes: true, Out: &key}); err != nil {
				return err
			}
			r.Course.CertificateKey = key.key
			return workflow.NoteStage(r.Host, state.StageFinished)
		},
	}
}
