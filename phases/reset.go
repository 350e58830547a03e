package phases

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
)

// Reset takes a machine out of its cluster: `kubeadm reset`, and then what ccmadm has written on the machine and the node
// agent into its kernel. Objects in the cluster are left: other machines use them. The rest are flags of `kubeadm reset`.
// Files go last, so that a reset that was cut short can be repeated.
func Reset(ctx context.Context, d *Data, rest []string) error {
	d = d.in("reset")
	if !d.Machine.Superuser {
		return errNotRoot("reset")
	}
	if err := handOverVIP(ctx, d); err != nil { // then it goes as in a power cut: a reset works on what is half broken
		d.Sayf("the control plane's address is not handed over: %v", err)
	}
	args := []string{"reset"}
	if d.Force {
		args = append(args, "--force")
	}
	args = append(kubeadmFlags(d, args), rest...)
	etcd, _ := etcdData(d.Machine) // a reset works on what is half broken
	if err := stream(ctx, d, args, machine.Command{Args: args, Changes: !d.DryRun}); err != nil {
		return err
	}
	if err := removeUnit(ctx, d); err != nil {
		return err
	}
	if err := removeCertsTimer(ctx, d); err != nil {
		return err
	}
	if err := releaseVIP(ctx, d); err != nil {
		return err
	}
	if err := removePodNetwork(d); err != nil {
		return err
	}
	state, err := machineState(d)
	if err != nil {
		return err
	}
	ours := state.Files
	if !state.known { // written before there was a list
		if ours, err = filesIn(d.Machine, machine.CloudConfigDir); err != nil {
			return err
		}
	}
	ours = append(ours,
		machine.CCMManifest, machine.VIPManifest, machine.VIPMembers, machine.VIPSysctl, machine.CCMKubeconfig, machine.CNIConfig,
		machine.KubeletEnvFile, machine.RecordFile, machine.KubeadmConfig, machine.StateFile)
	for _, path := range ours {
		if err := remove(d, path); err != nil {
			return err
		}
	}
	for _, dir := range []string{machine.CloudConfigDir, machine.VIPDir, machine.ConfigDir} {
		if err := removeEmptyDir(d, dir); err != nil {
			return err
		}
	}
	return checkEtcdGone(d, etcd)
}

// etcdData is where kubeadm's etcd of this machine keeps its data; empty: it has none, as beside an external one.
func etcdData(m *machine.Machine) (string, error) {
	pod, err := readStaticPod(m, machine.EtcdManifest)
	if err != nil || pod == nil {
		return "", err
	}
	for _, v := range pod.Spec.Volumes {
		if v.Name == "etcd-data" && v.HostPath != nil {
			return v.HostPath.Path, nil
		}
	}
	return "", fmt.Errorf("%s has no volume etcd-data of the machine's", machine.EtcdManifest)
}

// checkEtcdGone says what kubeadm does not: data of etcd that is there still, or again, where a container was just
// starting when it ended the others. The next init or join would refuse to begin.
func checkEtcdGone(d *Data, dir string) error {
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

// NewBare returns the data of a run that reads no configuration: it must work on a machine that is half done.
func NewBare(m *machine.Machine, o Options, s Streams, version string) *Data {
	o.Operation = Ordinary{}
	d := &Data{Options: o, Streams: s, Version: version, Machine: m, known: &known{}}
	if o.DryRun {
		d.Machine = m.DryRun(s.Out, kubeadm.MaskSecrets)
	}
	return d
}

// removeUnit takes the kubelet's drop-in and the boot-time unit away.
func removeUnit(ctx context.Context, d *Data) error {
	installed, err := d.Machine.Exists(machine.KubeletUnit)
	if err != nil {
		return err
	}
	if installed {
		if err := d.Machine.Systemctl(ctx, "disable", "--quiet", filepath.Base(machine.KubeletUnit)); err != nil {
			return err
		}
	}
	configured, err := d.Machine.Exists(machine.KubeletDropIn)
	if err != nil || !installed && !configured {
		return err
	}
	for _, path := range []string{machine.KubeletUnit, machine.KubeletDropIn} {
		if err := remove(d, path); err != nil {
			return err
		}
	}
	if err := removeEmptyDir(d, filepath.Dir(machine.KubeletDropIn)); err != nil {
		return err
	}
	return d.Machine.DaemonReload(ctx)
}

// removePodNetwork takes away the routes and the masquerading of a node agent, which kubeadm has ended. They would lead
// packets of whatever comes next.
func removePodNetwork(d *Data) error {
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

// removeEmptyDir leaves a directory that holds something we did not write.
func removeEmptyDir(d *Data, dir string) error {
	if d.DryRun {
		return nil
	}
	left, err := os.ReadDir(d.Machine.Path(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for files that are not ours: %w", err)
	}
	if len(left) > 0 {
		d.Sayf("%s is kept: %s is not ours", dir, left[0].Name())
		return nil
	}
	if err := os.Remove(d.Machine.Path(dir)); err != nil {
		return fmt.Errorf("remove directory: %w", err)
	}
	return nil
}

// filesIn lists the plain files of a directory; those that keep a previous version go with the file itself.
func filesIn(m *machine.Machine, dir string) ([]string, error) {
	entries, err := os.ReadDir(m.Path(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list files to remove: %w", err)
	}
	var paths []string
	for _, e := range entries {
		if e.Name()[0] != '.' && e.Type().IsRegular() {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths, nil
}

func errNotRoot(what string) *finding.Error {
	return finding.Preflightf("%s: not root", what).WithHint("the same command behind sudo")
}
