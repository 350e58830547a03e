package bootstrap

import (
	"context"
	"errors"
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
	left := removeRest(ctx, r.Env)
	gone := checkEtcdGone(r.Env, etcd)
	if left == nil {
		return gone
	}
	err := finding.Errorf("%w", errors.Join(left, gone))
	if r.DryRun {
		return err
	}
	return err.WithHint("all else was removed. Once that is repaired, run the same ccmadm command again")
}

// removeRest removes what ccmadm and the node agent have left. One step that fails does not stop the next: credentials would stay on
// the machine each time.
func removeRest(ctx context.Context, env *workflow.Env) error {
	_, err := workflow.RemoveUnit(ctx, env)
	errs := []error{err, manager.RemoveCertsTimer(ctx, env)}
	vipStays, err := releaseVIP(ctx, env.Machine)
	errs = append(errs, err, removePodNetwork(env))
	if ctx.Err() != nil { // told to stop
		return errors.Join(errs...)
	}
	ours, err := cloudFiles(env)
	errs = append(errs, err)
	ours = append(ours,
		machine.CCMManifest, machine.VIPManifest, machine.VIPSysctl, machine.CCMKubeconfig, machine.CNIConfig, machine.KubeletEnvFile,
		machine.KubeadmConfig, machine.StateFile)
	dirs := []string{machine.CloudConfigDir}
	if !vipStays { // or the next reset would not know of it
		ours, dirs = append(ours, machine.VIPMembers, machine.RecordFile), append(dirs, machine.VIPDir, machine.ConfigDir)
	}
	for _, path := range ours {
		errs = append(errs, workflow.Remove(env, path))
	}
	for _, dir := range dirs {
		errs = append(errs, workflow.RemoveEmptyDir(env, dir))
	}
	return errors.Join(errs...)
}

// cloudFiles are the provider's files that are ours: all, where nothing that can be read says which.
func cloudFiles(env *workflow.Env) ([]string, error) {
	state, err := workflow.MachineState(env)
	if err == nil && state.Known {
		return state.Files, nil
	}
	files, listed := workflow.FilesIn(env.Machine, machine.CloudConfigDir)
	return files, errors.Join(err, listed)
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
