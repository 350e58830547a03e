package bootstrap

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// ResetFlags lays flags of kubeadm reset over the inputs of a run, as far as both mean the same, and returns the rest. What could
// make kubeadm end well before it has reset the machine is refused.
func ResetFlags(in *workflow.Inputs, args []string) (rest []string, err error) {
	given, err := kubeadm.ReadResetFlags(args)
	if err != nil {
		return nil, finding.Usagef("%w", err).
			WithHint("a phase of kubeadm and its help go without ccmadm: kubeadm reset --help")
	}
	in.DryRun, in.Force = in.DryRun || given.DryRun, in.Force || given.Force
	in.IgnorePreflightErrors = slices.Concat(in.IgnorePreflightErrors, given.IgnorePreflightErrors)
	return given.Rest, nil
}

// Reset takes a machine out of its cluster: `kubeadm reset`, and then what ccmadm has written on the machine and the node
// agent into its kernel. Objects in the cluster are left: other machines use them. The rest is that of
// [ResetFlags].
// Files go last, so that a reset that was cut short can be repeated.
func Reset(ctx context.Context, r *workflow.Run, rest []string) error {
	r = r.InPhase("reset")
	if !r.Machine.Superuser {
		return workflow.ErrNotRoot("reset")
	}
	if err := handOverVIP(ctx, r.Env); err != nil { // then it goes as in a power cut: a reset works on what is half broken
		r.Sayf("the control plane's address is not handed over: %v", err)
	}
	args := []string{"reset"}
	if r.Force {
		args = append(args, "--force")
	}
	args = append(workflow.KubeadmFlags(r, args), rest...)
	etcd, _ := record.EtcdData(r.Machine) // a reset works on what is half broken
	if err := workflow.Stream(ctx, r.Env, args, machine.Command{Args: args, Changes: !r.DryRun}); err != nil {
		return err
	}
	if _, err := workflow.RemoveUnit(ctx, r.Env); err != nil {
		return err
	}
	if err := manager.RemoveCertsTimer(ctx, r.Env); err != nil {
		return err
	}
	if err := releaseVIP(ctx, r.Machine); err != nil {
		return err
	}
	if err := removePodNetwork(r.Env); err != nil {
		return err
	}
	state, err := workflow.MachineState(r.Env)
	if err != nil {
		return err
	}
	ours := state.Files
	if !state.Known { // written before there was a list
		if ours, err = workflow.FilesIn(r.Machine, machine.CloudConfigDir); err != nil {
			return err
		}
	}
	ours = append(ours,
		machine.CCMManifest, machine.VIPManifest, machine.VIPMembers, machine.VIPSysctl, machine.CCMKubeconfig, machine.CNIConfig,
		machine.KubeletEnvFile, machine.RecordFile, machine.KubeadmConfig, machine.StateFile)
	for _, path := range ours {
		if err := workflow.Remove(r.Env, path); err != nil {
			return err
		}
	}
	for _, dir := range []string{machine.CloudConfigDir, machine.VIPDir, machine.ConfigDir} {
		if err := workflow.RemoveEmptyDir(r.Env, dir); err != nil {
			return err
		}
	}
	return checkEtcdGone(r.Env, etcd)
}

// checkEtcdGone says what kubeadm does not: data of etcd that is there still, or again, where a container was just
// starting when it ended the others. The next init or join would refuse to begin.
func checkEtcdGone(env *workflow.Env, dir string) error {
	if dir == "" || env.DryRun {
		return nil
	}
	data := filepath.Join(dir, "member")
	there, err := env.Machine.Exists(data)
	if err != nil || !there {
		return err
	}
	return finding.Errorf("reset: %s still exists: kubeadm did not remove it, or a container of etcd has started again", data).
		WithHint("run: crictl rmp --force --all; rm -r %s. Everything else is done", data)
}

// removePodNetwork takes away the routes and the masquerading of a node agent, which kubeadm has ended. They would lead
// packets of whatever comes next.
func removePodNetwork(env *workflow.Env) error {
	if env.Machine.PodNetwork == nil {
		return nil
	}
	lines, remove, err := env.Machine.PodNetwork()
	if err != nil {
		return fmt.Errorf("look for pod routes: %w", err)
	}
	if env.DryRun {
		for _, line := range lines {
			fmt.Fprintf(env.Out, "[dryrun] would remove %s\n", line)
		}
		return nil
	}
	if err := remove(); err != nil {
		return fmt.Errorf("remove pod routes: %w", err)
	}
	for _, line := range lines {
		env.Sayf("%s removed", line)
	}
	return nil
}
