package bootstrap

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// Reset takes a machine out of its cluster: `kubeadm reset`, and then what ccmadm has written on the machine and the node
// agent into its kernel. Objects in the cluster are left: other machines use them. The rest are flags of `kubeadm reset`.
// Files go last, so that a reset that was cut short can be repeated.
func Reset(ctx context.Context, d *workflow.Data, rest []string) error {
	d = d.InPhase("reset")
	if !d.Machine.Superuser {
		return workflow.ErrNotRoot("reset")
	}
	if err := handOverVIP(ctx, d); err != nil { // then it goes as in a power cut: a reset works on what is half broken
		d.Sayf("the control plane's address is not handed over: %v", err)
	}
	args := []string{"reset"}
	if d.Force {
		args = append(args, "--force")
	}
	args = append(workflow.KubeadmFlags(d, args), rest...)
	etcd, _ := record.EtcdData(d.Machine) // a reset works on what is half broken
	if err := workflow.Stream(ctx, d, args, machine.Command{Args: args, Changes: !d.DryRun}); err != nil {
		return err
	}
	if err := workflow.RemoveUnit(ctx, d); err != nil {
		return err
	}
	if err := manager.RemoveCertsTimer(ctx, d); err != nil {
		return err
	}
	if err := releaseVIP(ctx, d.Machine); err != nil {
		return err
	}
	if err := removePodNetwork(d); err != nil {
		return err
	}
	state, err := workflow.MachineState(d)
	if err != nil {
		return err
	}
	ours := state.Files
	if !state.Known { // written before there was a list
		if ours, err = workflow.FilesIn(d.Machine, machine.CloudConfigDir); err != nil {
			return err
		}
	}
	ours = append(ours,
		machine.CCMManifest, machine.VIPManifest, machine.VIPMembers, machine.VIPSysctl, machine.CCMKubeconfig, machine.CNIConfig,
		machine.KubeletEnvFile, machine.RecordFile, machine.KubeadmConfig, machine.StateFile)
	for _, path := range ours {
		if err := workflow.Remove(d, path); err != nil {
			return err
		}
	}
	for _, dir := range []string{machine.CloudConfigDir, machine.VIPDir, machine.ConfigDir} {
		if err := workflow.RemoveEmptyDir(d, dir); err != nil {
			return err
		}
	}
	return checkEtcdGone(d, etcd)
}

// checkEtcdGone says what kubeadm does not: data of etcd that is there still, or again, where a container was just
// starting when it ended the others. The next init or join would refuse to begin.
func checkEtcdGone(d *workflow.Data, dir string) error {
	if dir == "" || d.DryRun {
		return nil
	}
	data := filepath.Join(dir, "member")
	there, err := d.Machine.Exists(data)
	if err != nil || !there {
		return err
	}
	return finding.Errorf("reset: %s is still there: kubeadm has left it, or a container of etcd has begun meanwhile", data).
		WithHint("crictl rmp --force --all; rm -r %s; all else is done", data)
}

// removePodNetwork takes away the routes and the masquerading of a node agent, which kubeadm has ended. They would lead
// packets of whatever comes next.
func removePodNetwork(d *workflow.Data) error {
	if d.Machine.PodNetwork == nil {
		return nil
	}
	lines, remove, err := d.Machine.PodNetwork()
	if err != nil {
		return fmt.Errorf("look for pod routes: %w", err)
	}
	if d.DryRun {
		for _, line := range lines {
			fmt.Fprintf(d.Out, "[dryrun] would remove %s\n", line)
		}
		return nil
	}
	if err := remove(); err != nil {
		return fmt.Errorf("remove pod routes: %w", err)
	}
	for _, line := range lines {
		d.Sayf("%s removed", line)
	}
	return nil
}
