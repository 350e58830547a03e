package phases

import (
	"context"
	"fmt"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine"
)

// Plain is the way back: the drop-in goes, and so does the flag that kubeadm has written down for a machine that joined
// in external mode. The kubelet is restarted, and given its flags again where it does not come back.
func Plain(ctx context.Context, d *Data, o NodeOptions) error {
	release, err := checkNode(ctx, d, o)
	if err != nil {
		return err
	}
	defer release()
	uses, err := d.Machine.KubeletFlags("cloud-provider")
	if err != nil {
		return err
	}
	if err := refuseAdministrators(d.Machine, uses); err != nil {
		return err
	}
	former, err := keepKubeletFiles(d.Machine)
	if err != nil {
		return err
	}
	if len(uses) > 0 {
		if err := dropKubeadmFlag(d); err != nil {
			return err
		}
	}
	if err := removeUnit(ctx, d); err != nil {
		return err
	}
	if err := remove(d, machine.KubeletEnvFile); err != nil {
		return err
	}
	if left, err := filesIn(d.Machine, machine.ConfigDir); err == nil && len(left) == 0 {
		if err := removeEmptyDir(d, machine.ConfigDir); err != nil {
			return err
		}
	}
	err = former.settle(ctx, d, o.Timeout, func(k *machine.Kubelet) error {
		if mode, is := k.Flag("cloud-provider"); is && mode != "" {
			return fmt.Errorf("it runs with --cloud-provider=%s", mode)
		}
		return nil
	})
	if err == nil {
		err = dropNotedFlag(d)
	}
	switch {
	case err == nil && o.Purge:
		if err := purgeFiles(d); err != nil {
			return err
		}
		tellPurged(ctx, d)
		return nil
	case err == nil && o.Forget:
		return forget(d)
	}
	return err
}

// refuseAdministrators finds places of --cloud-provider other than kubeadm's file, the only one that a step changes.
func refuseAdministrators(m *machine.Machine, uses []machine.FlagUse) error {
	for _, u := range uses {
		if u.File != m.Path(machine.KubeadmFlags) {
			return isAdministrators(u.String())
		}
	}
	return nil
}

func isAdministrators(use string) error {
	return finding.Refusedf("take the kubelet out of external mode: %s is an administrator's", use).
		WithHint("remove it there; nothing was changed")
}

// forget removes what ccmadm has noted on this machine of its cluster.
func forget(d *Data) error {
	for _, path := range []string{machine.RecordFile, machine.StateFile} {
		if err := remove(d, path); err != nil {
			return err
		}
	}
	return removeEmptyDir(d, machine.ConfigDir)
}
