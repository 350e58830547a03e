package upgrade

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func kubeadmUpgrade() workflow.Phase {
	return workflow.Phase{
		Name:    "kubeadm",
		Journal: workflow.JournalAlways,
		Undo:    "Kubernetes does not go back; kubeadm's copies of before are below /etc/kubernetes/tmp",
		Short:   "Run kubeadm upgrade",
		Long: `Runs "kubeadm upgrade apply VERSION --yes" or "kubeadm upgrade node", streams what it prints, and looks at what
has become of this machine. Where ` + machine.StateFile + ` says that it has come to its end, it is not run again;
where it was cut short, it is: it goes on by itself.`,
		Plan: func(_ context.Context, d *workflow.Data) (string, error) {
			if !upgradeOf(d).kubeadm {
				return "unchanged: kubeadm has upgraded this machine", nil
			}
			return "would run kubeadm " + strings.Join(kubeadm.MaskArgs(upgradeArgs(upgradeOf(d))), " "), nil
		},
		Run: func(ctx context.Context, d *workflow.Data) error {
			if !upgradeOf(d).kubeadm {
				return tellUpgraded(d)
			}
			if err := noteUpgrading(d); err != nil {
				return err
			}
			if err := runUpgrade(ctx, d); err != nil {
				return err
			}
			if err := lookUpgraded(ctx, d); err != nil {
				return err
			}
			return noteUpgraded(d)
		},
	}
}

// noteUpgrading writes down that kubeadm is about to begin: until it has come to its end with all that it does, that is
// what this machine says, whoever looks and however half of it looks.
func noteUpgrading(d *workflow.Data) error {
	if err := keepKubeletFlags(d); err != nil {
		return err
	}
	s, err := workflow.MachineState(d)
	if err != nil {
		return err
	}
	s.Upgrading = upgradeOf(d).command()
	return s.Write(d.Machine)
}

// noteUpgraded writes down that kubeadm has come to its end, unless it was told to leave out what an upgrade needs.
func noteUpgraded(d *workflow.Data) error {
	left, err := upgradeOf(d).leftOut(upgradeArgs(upgradeOf(d))[1])
	if err != nil {
		return err
	}
	if !left.Whole() {
		d.Sayf("kubeadm was told to leave something out: that is noted, and the same command without goes on")
		return nil
	}
	s, err := workflow.MachineState(d)
	if err != nil {
		return err
	}
	s.Upgraded, s.Upgrading, s.UpgradeSkipped = "v"+upgradeOf(d).target.String(), "", left.Phases
	if len(left.Phases) > 0 {
		d.Sayf("kubeadm was told to skip %s: %s keeps that, and the upgrade counts as whole",
			strings.Join(left.Phases, ", "), machine.StateFile)
	}
	return s.Write(d.Machine)
}

// tellUpgraded says what an earlier run has done here.
func tellUpgraded(d *workflow.Data) error {
	s, err := workflow.MachineState(d)
	if err != nil {
		return err
	}
	but := ""
	if s.Upgraded == "v"+upgradeOf(d).target.String() && len(s.UpgradeSkipped) > 0 {
		but = ", told to skip " + strings.Join(s.UpgradeSkipped, ", ")
	}
	d.Sayf("unchanged: kubeadm has upgraded this machine to v%s%s", upgradeOf(d).target, but)
	return nil
}

// runUpgrade runs kubeadm's half.
func runUpgrade(ctx context.Context, d *workflow.Data) (err error) {
	remove, err := carried(d)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	args := upgradeArgs(upgradeOf(d))
	return workflow.Stream(ctx, d, args, machine.Command{Args: args, Changes: true})
}

func upgradeArgs(u *Upgrade) []string {
	args := []string{"upgrade", "node"}
	if u.first() {
		args = []string{"upgrade", "apply", "v" + u.target.String(), "--yes"}
	}
	if u.Config != "" {
		args = append(args, "--config="+u.Config)
	}
	return append(args, u.Rest...)
}

// upgradedHere tells, by what an earlier run has written down here, whether kubeadm has upgraded this machine; on a
// control plane its static pod has to say so, too.
func upgradedHere(d *workflow.Data) (bool, error) {
	s, err := workflow.MachineState(d)
	if err != nil || s.Upgraded != "v"+upgradeOf(d).target.String() {
		return false, err
	}
	v, err := ownAPIServer(d.Machine)
	return v == nil || v.EqualTo(upgradeOf(d).target), err
}

// ownAPIServer is the version of this machine's API server by its manifest; nil: it has none.
func ownAPIServer(m *machine.Machine) (*version.Version, error) {
	pod, err := record.ReadStaticPod(m, machine.APIServerPod)
	if err != nil || pod == nil {
		return nil, err
	}
	if len(pod.Spec.Containers) == 0 {
		return nil, fmt.Errorf("read %s: no container is in it", machine.APIServerPod)
	}
	v, err := version.ParseSemantic(settings.TagOf(pod.Spec.Containers[0].Image))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", machine.APIServerPod, err)
	}
	return v, nil
}

// lookUpgraded does not take kubeadm's word for it: its configuration may have said to leave half of it out, or to
// change nothing.
func lookUpgraded(ctx context.Context, d *workflow.Data) error {
	own, err := ownAPIServer(d.Machine)
	if err != nil || own == nil {
		return err
	}
	wrong := func(what string, is any) error {
		return finding.Errorf("upgrade this control plane: kubeadm has ended well, and %s is of v%s, not v%s", what, is,
			upgradeOf(d).target).
			WithHint("look for dryRun and skipPhases in kubeadm's configuration and flags; the same command goes on")
	}
	if !own.EqualTo(upgradeOf(d).target) {
		return wrong(machine.APIServerPod, own)
	}
	if !upgradeOf(d).first() {
		return nil
	}
	live, err := record.LiveVersion(ctx, d)
	if err != nil {
		return err
	}
	if v, err := version.ParseSemantic(live); err != nil || !v.EqualTo(upgradeOf(d).target) {
		return wrong("the cluster's configuration", strings.TrimPrefix(live, "v"))
	}
	return nil
}
