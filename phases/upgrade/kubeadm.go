package upgrade

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/upgrade/planner"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/templates"
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
		Plan: func(_ context.Context, r *workflow.Run) (string, error) {
			u := upgradeOf(r)
			if !u.kubeadm {
				return "unchanged: kubeadm has upgraded this machine", nil
			}
			return "would run kubeadm " + strings.Join(kubeadm.MaskArgs(upgradeArgs(u)), " "), nil
		},
		Run: func(ctx context.Context, r *workflow.Run) error {
			u := upgradeOf(r)
			if !u.kubeadm {
				return u.tellUpgraded(r.Env)
			}
			if err := u.noteUpgrading(r.Env); err != nil {
				return err
			}
			if err := u.runUpgrade(ctx, r.Env); err != nil {
				return err
			}
			if err := u.lookUpgraded(ctx, r.Env); err != nil {
				return err
			}
			return u.noteUpgraded(r.Env)
		},
	}
}

// noteUpgrading writes down that kubeadm is about to begin: until it has come to its end with all that it does, that is
// what this machine says, whoever looks and however half of it looks.
func (u *Upgrade) noteUpgrading(env *workflow.Env) error {
	if err := keepKubeletFlags(env); err != nil {
		return err
	}
	s, err := workflow.MachineState(env)
	if err != nil {
		return err
	}
	s.Upgrading = u.command()
	return s.Write(env.Machine)
}

// noteUpgraded writes down that kubeadm has come to its end, unless it was told to leave out what an upgrade needs.
func (u *Upgrade) noteUpgraded(env *workflow.Env) error {
	left, err := u.leftOut(upgradeArgs(u)[1])
	if err != nil {
		return err
	}
	if !left.Whole() {
		env.Sayf("kubeadm skipped a part of the upgrade, which is recorded; run the same command without skipPhases and dryRun to finish it")
		return nil
	}
	s, err := workflow.MachineState(env)
	if err != nil {
		return err
	}
	s.Upgraded, s.Upgrading, s.UpgradeSkipped = "v"+u.target.String(), "", left.Phases
	if len(left.Phases) > 0 {
		env.Sayf("kubeadm was told to skip %s: %s keeps that, and the upgrade counts as whole",
			strings.Join(left.Phases, ", "), machine.StateFile)
	}
	return s.Write(env.Machine)
}

// tellUpgraded says what an earlier run has done here.
func (u *Upgrade) tellUpgraded(env *workflow.Env) error {
	s, err := workflow.MachineState(env)
	if err != nil {
		return err
	}
	but := ""
	if s.Upgraded == "v"+u.target.String() && len(s.UpgradeSkipped) > 0 {
		but = ", told to skip " + strings.Join(s.UpgradeSkipped, ", ")
	}
	env.Sayf("unchanged: kubeadm has upgraded this machine to v%s%s", u.target, but)
	return nil
}

// runUpgrade runs kubeadm's half.
func (u *Upgrade) runUpgrade(ctx context.Context, env *workflow.Env) (err error) {
	remove, err := u.carried(env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	proxies, err := proxiesForKubeadm(env)
	if err != nil {
		return err
	}
	args := upgradeArgs(u)
	return workflow.Stream(ctx, env, args, machine.Command{Args: args, Env: proxies, Changes: true})
}

// proxiesForKubeadm are the proxy variables with which kubeadm writes this machine's static pods and kube-proxy again: it takes them from
// its own environment, and a shell, an SSH connection or a pod may have none. They are one set: a proxy without its NO_PROXY keeps pods
// from each other. Where this process's environment has one, in whatever case, it has all; one that is set and empty drops those of before.
// Otherwise they are those of the static pods, where all have the same.
func proxiesForKubeadm(env *workflow.Env) ([]string, error) {
	var callers []string
	given := false
	for _, name := range templates.ProxyVariables() {
		value := env.Getenv(name)
		if value != "" { // a program in another root is given no environment otherwise
			callers = append(callers, name+"="+value)
		}
		given = given || env.IsSet(name)
	}
	if given {
		return callers, nil
	}
	var list []string
	seen := false
	for _, component := range []planner.Component{planner.APIServer, planner.ControllerManager, planner.Scheduler} {
		pod, err := record.ReadStaticPod(env.Machine, filepath.Join(machine.ManifestDir, string(component)+".yaml"))
		if err != nil {
			return nil, err
		}
		if pod == nil || len(pod.Spec.Containers) == 0 {
			continue
		}
		var own []string
		for _, v := range templates.OwnContainer(&pod.Spec, string(component)).Env {
			lower := strings.ToLower(v.Name)
			if v.Value == "" || !strings.HasSuffix(lower, "_proxy") {
				continue
			}
			if env.Getenv(v.Name)+env.Getenv(lower)+env.Getenv(strings.ToUpper(lower)) != "" { // such as ALL_PROXY
				return nil, nil
			}
			own = append(own, v.Name+"="+v.Value)
		}
		slices.Sort(own)
		if seen && !slices.Equal(own, list) { // as by extraEnvs of one component
			env.Sayf("warning, the static pods of this machine differ in their proxy variables, so kubeadm gets none: " +
				"export those that all are to have")
			return nil, nil
		}
		list, seen = own, true
	}
	return list, nil
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
func (u *Upgrade) upgradedHere(env *workflow.Env) (bool, error) {
	s, err := workflow.MachineState(env)
	if err != nil || s.Upgraded != "v"+u.target.String() {
		return false, err
	}
	v, err := ownAPIServer(env.Machine)
	return v == nil || v.EqualTo(u.target), err
}

// ownAPIServer is the version of this machine's API server by its manifest; nil: it has none.
func ownAPIServer(m *machine.Machine) (*version.Version, error) {
	pod, err := record.ReadStaticPod(m, machine.APIServerPod)
	if err != nil || pod == nil {
		return nil, err
	}
	c := templates.OwnContainer(&pod.Spec, string(planner.APIServer))
	if c == nil {
		return nil, fmt.Errorf("read %s: no container is in it", machine.APIServerPod)
	}
	v, err := version.ParseSemantic(settings.TagOf(c.Image))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", machine.APIServerPod, err)
	}
	return v, nil
}

// lookUpgraded does not take kubeadm's word for it: its configuration may have said to leave half of it out, or to
// change nothing.
func (u *Upgrade) lookUpgraded(ctx context.Context, env *workflow.Env) error {
	own, err := ownAPIServer(env.Machine)
	if err != nil || own == nil {
		return err
	}
	wrong := func(what string, is any) error {
		return finding.Errorf("upgrade this control plane: kubeadm succeeded, but %s has version v%s, not v%s", what, is,
			u.target).
			WithHint("remove dryRun and skipPhases from kubeadm's configuration and flags, and run the same command again")
	}
	if !own.EqualTo(u.target) {
		return wrong(machine.APIServerPod, own)
	}
	if !u.first() {
		return nil
	}
	live, err := record.LiveVersion(ctx, env)
	if err != nil {
		return err
	}
	if v, err := version.ParseSemantic(live); err != nil || !v.EqualTo(u.target) {
		return wrong("the cluster's configuration", strings.TrimPrefix(live, "v"))
	}
	return nil
}
