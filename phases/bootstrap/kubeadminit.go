package bootstrap

import (
	"context"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
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
		Run: func(ctx context.Context, d *workflow.Data) error {
			s, err := workflow.MachineState(d)
			if err != nil {
				return err
			}
			done, err := workflow.KubeadmFinished(d)
			if err != nil {
				return err
			}
			if done || s.Stage == v1alpha1.StageControlPlane {
				d.Sayf("unchanged: kubeadm has made this control plane")
				return nil
			}
			if s.Stage != "" {
				if err := workflow.SameMachine(d, s); err != nil {
					return err
				}
			}
			if d.DryRun { // kubeadm's own needs both halves in one process: it keeps what it would have written in memory
				return workflow.RunKubeadm(ctx, d, workflow.InitHalf(d, []string{"show-join-command"})...)
			}
			if s.Stage == "" {
				if err := kubeadmPreflight(ctx, d); err != nil {
					return err
				}
			}
			if err := workflow.NoteStage(d, v1alpha1.StageBegun); err != nil {
				return err
			}
			skip := append([]string{"preflight"}, kubeadm.SecondHalf()...)
			if err := workflow.RunKubeadm(ctx, d, workflow.InitHalf(d, skip)...); err != nil {
				return err
			}
			return workflow.NoteStage(d, v1alpha1.StageControlPlane)
		},
	}
}

// kubeadmPreflight runs before anything is noted: what it refuses has not begun, and it is asked again by the next run. A
// phase that is run by itself has had no preflight of ours.
func kubeadmPreflight(ctx context.Context, d *workflow.Data) error {
	if err := record.CheckKubeletInUse(ctx, d); err != nil && !workflow.Ignored(d, finding.CheckKubeletInUse.Kind().Reason) {
		return err
	}
	if slices.Contains(d.SkipPhases, "preflight") {
		return nil
	}
	return workflow.RunKubeadm(ctx, d, workflow.KubeadmFlags(d, []string{"init", "phase", "preflight", "--config=" + machine.KubeadmConfig})...)
}

// KubeadmFinish runs the second half of `kubeadm init`.
func KubeadmFinish() workflow.Phase {
	return workflow.Phase{
		Name:  "kubeadm-finish",
		Short: "Run the rest of kubeadm's phases",
		Long: `Runs "kubeadm init --config ` + machine.KubeadmConfig + `" with the phases from upload-config to addon. Once they have ended well, which is
kept in ` + machine.StateFile + `, they are never run again: they would undo what has been changed in the cluster since.`,
		Run: func(ctx context.Context, d *workflow.Data) error {
			done, err := workflow.KubeadmFinished(d)
			if err != nil {
				return err
			}
			if done {
				d.Sayf("unchanged: kubeadm has finished here")
				return nil
			}
			s, err := workflow.MachineState(d)
			if err != nil {
				return err
			}
			if s.Stage != v1alpha1.StageControlPlane && !d.DryRun {
				return finding.Refusedf("run the rest of kubeadm's phases: %s does not say that its first half has ended here", machine.StateFile).
					WithHint("`ccmadm init phase kubeadm-control-plane` comes before; where you run kubeadm yourself, run the rest of it yourself, too")
			}
			args := workflow.InitHalf(d, append(slices.Clone(kubeadm.FirstHalf()), "show-join-command"))
			if d.DryRun {
				d.Sayf("would run kubeadm %s", strings.Join(kubeadm.MaskArgs(args), " "))
				return nil
			}
			if err := workflow.RunKubeadm(ctx, d, args...); err != nil {
				return err
			}
			return workflow.NoteStage(d, v1alpha1.StageFinished)
		},
	}
}
