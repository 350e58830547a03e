package kubelet

import (
	"context"
	"errors"
	"fmt"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// Plain is the way back: the drop-in goes, and so does the flag that kubeadm has written down for a machine that joined
// in external mode. The kubelet is restarted, and given its flags again where it does not come back.
func Plain(ctx context.Context, env *workflow.Env, o NodeOptions) error {
	release, err := checkNode(ctx, env, o)
	if err != nil {
		return err
	}
	defer release()
	uses, err := env.Machine.KubeletFlags("cloud-provider")
	if err != nil {
		return err
	}
	if err := RefuseAdministrators(env.Machine, uses); err != nil {
		return err
	}
	former, err := keepKubeletFiles(env.Machine)
	if err != nil {
		return err
	}
	packaged, err := takeAway(ctx, env, len(uses) > 0)
	if err != nil { // or a second run would take what is half done for the former state
		err = errors.Join(err, former.write(context.WithoutCancel(ctx), env))
	} else {
		err = former.settle(ctx, env, o.Timeout, func(k *machine.Kubelet) error {
			if mode, is := k.Flag("cloud-provider"); is && mode != "" {
				return fmt.Errorf("it runs with --cloud-provider=%s", mode)
			}
			return nil
		})
	}
	if err == nil {
		err = dropNotedFlag(env)
	} else if packaged { // what is a file was given back
		err = errors.Join(err, enableUnit(context.WithoutCancel(ctx), env))
	}
	switch {
	case err == nil && o.Purge:
		if err := PurgeFiles(env); err != nil {
			return err
		}
		tellDone(ctx, env, AskedPurge)
		return nil
	case err == nil && o.Forget:
		if err := Forget(env); err != nil {
			return err
		}
		tellDone(ctx, env, AskedForget)
		return nil
	}
	return err
}

// takeAway removes what sets external mode: the drop-in, the unit of the boot, the package's included, and kubeadm's flag.
func takeAway(ctx context.Context, env *workflow.Env, flagged bool) (packaged bool, err error) {
	if flagged {
		if err := dropKubeadmFlag(env); err != nil {
			return false, err
		}
	}
	if packaged, err = workflow.RemoveUnit(ctx, env); err != nil {
		return packaged, err
	}
	if err := workflow.Remove(env, machine.KubeletEnvFile); err != nil {
		return packaged, err
	}
	if left, err := workflow.FilesIn(env.Machine, machine.ConfigDir); err == nil && len(left) == 0 {
		return packaged, workflow.RemoveEmptyDir(env, machine.ConfigDir)
	}
	return packaged, nil
}

// RefuseAdministrators finds places of --cloud-provider other than kubeadm's file, the only one that a step changes.
func RefuseAdministrators(m *machine.Machine, uses []machine.FlagUse) error {
	for _, u := range uses {
		if u.File != m.Path(machine.KubeadmFlags) {
			return isAdministrators(u.String())
		}
	}
	return nil
}

func isAdministrators(use string) error {
	return finding.Refusedf("take the kubelet out of external mode: %s was not set by ccmadm", use).
		WithHint("remove it there; nothing was changed")
}

// Forget removes what ccmadm has noted on this machine of its cluster.
func Forget(env *workflow.Env) error {
	for _, path := range []string{machine.RecordFile, machine.StateFile} {
		if err := workflow.Remove(env, path); err != nil {
			return err
		}
	}
	return workflow.RemoveEmptyDir(env, machine.ConfigDir)
}
