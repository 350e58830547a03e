package record

import (
	"context"
	"os"
	"strings"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/kubeadm/identity"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// CheckProvider tells the user what the profile is worth, and what was seen where the machine was asked.
func CheckProvider(ctx context.Context, r *workflow.Run) error {
	s, err := r.Settings(ctx)
	if err != nil {
		return err
	}
	if r.Said.Provider == config.ProviderAuto && s.Recorded == nil {
		found, err := settings.Detect(r.Machine)
		if err != nil {
			return err
		}
		r.Sayf("provider %s: this machine says %s", found.Provider, strings.Join(found.Saw, ", "))
	}
	if w := s.Profile.Warning(); w != "" {
		r.Sayf("warning, %s", w)
	}
	return settings.Compatible(&s.CloudConfiguration, s.Profile)
}

// WarnReadable tells of files with secrets that every user of the machine may read.
func WarnReadable(env *workflow.Env, settings *config.CloudConfiguration) {
	paths := []string{settings.CloudConfig.File}
	for _, c := range settings.Credentials {
		paths = append(paths, c.File)
	}
	for _, path := range paths {
		if info, err := os.Stat(path); path != "" && err == nil && info.Mode().Perm()&0o004 != 0 {
			env.Sayf("warning, every user of this machine can read %s (%s): chmod 600 %s", path, info.Mode().Perm(), path)
		}
	}
}

// CheckKubeletInUse keeps off machines that are nodes already, unless it was ccmadm that made them so: then this is a
// second run, which kubeadm has no part in once it has finished.
func CheckKubeletInUse(ctx context.Context, r *workflow.Run) error {
	s, err := workflow.MachineState(r.Env)
	if err != nil {
		return err
	}
	done, err := workflow.KubeadmFinished(r.Host)
	if err != nil {
		return err
	}
	if done && s.Stage == "" && !r.Single {
		if done, err = hasRecord(ctx, r); err != nil {
			return err
		}
	}
	if done || s.Stage != "" {
		return workflow.SameMachine(r.Host, s)
	}
	if prepared, err := preparedByCA(ctx, r); err != nil || prepared {
		return err
	}
	for _, left := range []struct{ path, what, hint string }{
		{machine.KubeletConf, "this machine is registered with a cluster already", "takes it out of that cluster"},
		{machine.BootstrapConf, "this machine has begun to join a cluster", "removes it"},
		{machine.EtcdManifest, "this machine runs a control plane, or did", "removes it"},
		{machine.APIServerPod, "this machine runs a control plane, or did", "removes it"},
	} {
		there, err := r.Machine.Exists(left.path)
		if err != nil {
			return err
		}
		if there {
			return finding.Usagef("%s exists: %s", left.path, left.what).
				WithHint("`ccmadm reset` (or `kubeadm reset`) %s", left.hint)
		}
	}
	there, err := r.Machine.Exists(machine.KubeletConfig)
	if err != nil || !there {
		return err
	}
	runs, err := r.Machine.ServiceActive(ctx, "kubelet")
	if err != nil || !runs {
		return err
	}
	return finding.Usagef("the kubelet is running with %s", machine.KubeletConfig).
		WithHint("run `kubeadm reset` first, if this machine is to leave its cluster")
}

// preparedByCA tells whether a control plane with an external CA has been given its kubeconfigs, as kubeadm demands
// there, and nothing more: the kubelet's is no sign of a cluster then.
func preparedByCA(ctx context.Context, r *workflow.Run) (bool, error) {
	if r.Role != kubeadm.RoleInit {
		return false, nil
	}
	s, err := r.Settings(ctx)
	if err != nil {
		return false, err
	}
	if external, err := identity.ExternalCA(r.Machine, s.CertificatesDir); err != nil || !external {
		return false, err
	}
	for _, path := range []string{machine.KubeletConfig, machine.EtcdManifest, machine.APIServerPod} {
		if there, err := r.Machine.Exists(path); err != nil || there {
			return false, err
		}
	}
	return true, nil
}

// hasRecord tells whether the cluster is one of ccmadm's: its files on the machine may be those of a phase that was run by
// itself on somebody else's. A machine that joined has been checked when it did.
func hasRecord(ctx context.Context, r *workflow.Run) (bool, error) {
	if r.Role != kubeadm.RoleInit {
		return true, nil
	}
	rec, err := publishedRecord(ctx, r)
	return rec != nil, err
}
