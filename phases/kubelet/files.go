package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// kubeletFiles are the files behind the kubelet's flags as they were, to be given back; nil for one that was not there.
type kubeletFiles map[string]*machine.File

func keepKubeletFiles(m *machine.Machine) (kubeletFiles, error) {
	files := kubeletFiles{}
	for _, path := range []string{
		machine.KubeletEnvFile, machine.KubeletDropIn, machine.KubeletUnit,
		machine.KubeadmFlags,
	} {
		data, err := m.Read(path)
		if errors.Is(err, fs.ErrNotExist) {
			files[path] = nil
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("keep what the kubelet was started with: %w", err)
		}
		mode := fs.FileMode(0o644)
		if info, err := os.Stat(m.Path(path)); err == nil { // else a link that leads out of another root
			mode = info.Mode().Perm()
		}
		files[path] = &machine.File{Path: path, Data: data, Mode: mode}
	}
	return files, nil
}

// settle restarts the kubelet where files have changed, or where it does not run with them yet, and gives it its former
// files where it does not come back.
func (f kubeletFiles) settle(ctx context.Context, env *workflow.Env, timeout time.Duration,
	wanted func(*machine.Kubelet) error,
) error {
	running, err := env.Machine.RunningKubelet(ctx)
	if err != nil {
		return errors.Join(err, f.write(context.WithoutCancel(ctx), env))
	}
	if !env.Changed() && running != nil && wanted(running) == nil {
		env.Sayf("the kubelet runs so already: unchanged")
		return nil
	}
	err = restartKubelet(ctx, env, timeout, wanted)
	if err == nil {
		if !env.DryRun {
			env.Sayf("the kubelet was restarted, and answers")
		}
		return nil
	}
	env.Sayf("the kubelet does not come back: %v", err)
	// Ctrl-C, too, ends with a kubelet that runs.
	if undone := f.giveBack(context.WithoutCancel(ctx), env, timeout); undone != nil {
		return finding.Errorf("restart the kubelet: %w\nit does not start with its former flags either: %w", err, undone).
			WithHint("journalctl -u kubelet and systemctl status kubelet show the cause; fix it and run the same command again")
	}
	return finding.Errorf("restart the kubelet: %w; its former flags were restored, and it answers", err).
		WithHint("journalctl -u kubelet shows the cause; fix it and run the same command again")
}

func (f kubeletFiles) giveBack(ctx context.Context, env *workflow.Env, timeout time.Duration) error {
	if err := f.write(ctx, env); err != nil {
		return err
	}
	return restartKubelet(ctx, env, timeout, func(*machine.Kubelet) error { return nil })
}

// write puts the files back as they were, for a systemd that has read them since as well.
func (f kubeletFiles) write(ctx context.Context, env *workflow.Env) error {
	for path, file := range f {
		var err error
		if file == nil {
			err = workflow.Remove(env, path)
		} else {
			err = env.Write(*file)
		}
		if err != nil {
			return err
		}
	}
	err := env.Machine.DaemonReload(ctx)
	if f[machine.KubeletUnit] == nil {
		return err
	}
	return errors.Join(err, enableUnit(ctx, env))
}

func enableUnit(ctx context.Context, env *workflow.Env) error {
	return env.Machine.Systemctl(ctx, "enable", "--quiet", filepath.Base(machine.KubeletUnit))
}

// dropKubeadmFlag takes --cloud-provider out of the flags that kubeadm wrote when the machine joined. The node IP there
// stays: it is the address that the Node has.
func dropKubeadmFlag(env *workflow.Env) error {
	data, err := env.Machine.Read(machine.KubeadmFlags)
	if err != nil {
		return fmt.Errorf("read kubeadm's flags of the kubelet: %w", err)
	}
	text, ok := WithoutFlag(string(data), "cloud-provider")
	if !ok {
		return finding.Refusedf("edit %s: it is not as kubeadm writes it", machine.KubeadmFlags).
			WithHint("remove --cloud-provider there; nothing was changed")
	}
	return env.Write(machine.File{Path: machine.KubeadmFlags, Data: []byte(text), Mode: 0o644})
}

// dropNotedFlag does the same to the note of an upgrade that was cut short, which would bring the flag back.
func dropNotedFlag(env *workflow.Env) error {
	s, err := workflow.MachineState(env)
	if err != nil || s.KubeletFlags == "" || env.DryRun {
		return err
	}
	text, ok := WithoutFlag(s.KubeletFlags, "cloud-provider")
	if !ok || text == s.KubeletFlags {
		return nil
	}
	s.KubeletFlags = text
	return s.Write(env.Machine)
}
