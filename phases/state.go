package phases

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/kubeadm/identity"
	"github.com/ccmadm/ccmadm/machine"
)

// state is what has been done on this machine.
type state struct {
	v1alpha1.LocalState
	// known says that ccmadm wrote it down; a machine of an older version, or of somebody else, has no such file.
	known bool
}

// machineState reads it.
func machineState(d *Data) (*state, error) {
	return d.known.state.get(func() (*state, error) {
		data, err := d.Machine.Read(machine.StateFile)
		if errors.Is(err, fs.ErrNotExist) {
			return &state{}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read what was done on this machine: %w", err)
		}
		s, err := v1alpha1.DecodeLocalState(machine.StateFile, data)
		if err != nil {
			return nil, err
		}
		return &state{*s, true}, nil
	})
}

// keep writes the state down, before or after what it speaks of.
func (s *state) keep(m *machine.Machine) error {
	data, err := s.Encode()
	if err != nil {
		return err
	}
	_, err = m.Files.Write(machine.File{Path: machine.StateFile, Data: data, Mode: 0o644})
	s.known = true
	return err
}

// reach notes that kubeadm has come to a stage. A dry run notes nothing.
func reach(d *Data, stage v1alpha1.Stage) error {
	if d.DryRun {
		return nil
	}
	s, err := machineState(d)
	if err != nil {
		return err
	}
	if err := sameMachine(d, s); err != nil {
		return err
	}
	if s.NodeName, err = nodeName(d); err != nil {
		return err
	}
	s.Role, s.Stage = string(d.Role), stage
	return s.keep(d.Machine)
}

// finished tells, by evidence on this machine alone, whether kubeadm has done its work here: then no half of it is run
// again, whatever an API server answers. Clusters made before there was a state file have what kubeadm and ccmadm wrote.
func finished(d *Data) (bool, error) {
	s, err := machineState(d)
	if err != nil || s.known && s.Stage != "" {
		return err == nil && s.Stage == v1alpha1.StageFinished, err
	}
	for _, path := range []string{machine.KubeletConf, machine.KubeletConfig, machine.RecordFile, machine.KubeadmConfig} {
		if there, err := d.Machine.Exists(path); err != nil || !there {
			return false, err
		}
	}
	return roleOfMachine(d.Machine) == d.Role, nil
}

// roleOfMachine is told by the kubeadm configuration that ccmadm has written.
func roleOfMachine(m *machine.Machine) kubeadm.Role {
	data, err := m.Read(machine.KubeadmConfig)
	if err != nil {
		return ""
	}
	file, err := kubeadm.Parse(machine.KubeadmConfig, data)
	if err != nil {
		return ""
	}
	if file.CanDiscover() {
		return kubeadm.RoleJoin
	}
	return kubeadm.RoleInit
}

// checkKubeletInUse keeps off machines that are nodes already, unless it was ccmadm that made them so: then this is a
// second run, which kubeadm has no part in once it has finished.
func checkKubeletInUse(ctx context.Context, d *Data) error {
	s, err := machineState(d)
	if err != nil {
		return err
	}
	done, err := finished(d)
	if err != nil {
		return err
	}
	if done && s.Stage == "" && !d.Single {
		if done, err = hasRecord(ctx, d); err != nil {
			return err
		}
	}
	if done || s.Stage != "" {
		return sameMachine(d, s)
	}
	if prepared, err := preparedByCA(ctx, d); err != nil || prepared {
		return err
	}
	for _, left := range []struct{ path, what, hint string }{
		{machine.KubeletConf, "this machine is registered with a cluster already", "takes it out of that cluster"},
		{machine.BootstrapConf, "this machine has begun to join a cluster", "removes it"},
		{machine.EtcdManifest, "this machine runs a control plane, or did", "removes it"},
		{machine.APIServerPod, "this machine runs a control plane, or did", "removes it"},
	} {
		there, err := d.Machine.Exists(left.path)
		if err != nil {
			return err
		}
		if there {
			return finding.Usagef("%s exists: %s", left.path, left.what).
				WithHint("`ccmadm reset` (or `kubeadm reset`) %s", left.hint)
		}
	}
	there, err := d.Machine.Exists(machine.KubeletConfig)
	if err != nil || !there {
		return err
	}
	runs, err := d.Machine.ServiceActive(ctx, "kubelet")
	if err != nil || !runs {
		return err
	}
	return finding.Usagef("the kubelet is running with %s", machine.KubeletConfig).
		WithHint("`kubeadm reset` stops it, if this machine's cluster is to be given up")
}

// preparedByCA tells whether a control plane with an external CA has been given its kubeconfigs, as kubeadm demands
// there, and nothing more: the kubelet's is no sign of a cluster then.
func preparedByCA(ctx context.Context, d *Data) (bool, error) {
	if d.Role != kubeadm.RoleInit {
		return false, nil
	}
	s, err := d.Settings(ctx)
	if err != nil {
		return false, err
	}
	if external, err := identity.ExternalCA(d.Machine, s.CertificatesDir); err != nil || !external {
		return false, err
	}
	for _, path := range []string{machine.KubeletConfig, machine.EtcdManifest, machine.APIServerPod} {
		if there, err := d.Machine.Exists(path); err != nil || there {
			return false, err
		}
	}
	return true, nil
}

// hasRecord tells whether the cluster is one of ccmadm's: its files on the machine may be those of a phase that was run by
// itself on somebody else's. A machine that joined has been checked when it did.
func hasRecord(ctx context.Context, d *Data) (bool, error) {
	if d.Role != kubeadm.RoleInit {
		return true, nil
	}
	rec, err := publishedRecord(ctx, d)
	return rec != nil, err
}

// sameMachine refuses to go on as another node, or in another role.
func sameMachine(d *Data, s *state) error {
	if s.Role != "" && s.Role != string(d.Role) {
		return finding.Refusedf("%s on a machine of `ccmadm %s`: %s says how far that has come", d.Role, s.Role, machine.StateFile).
			WithHint("`ccmadm reset` takes the machine out of its cluster first")
	}
	name, err := nodeName(d)
	if err != nil {
		return err
	}
	if s.NodeName != "" && s.NodeName != name {
		return finding.Refusedf("nodeRegistration.name is %q: this machine is Node/%s, and kubelets cannot be renamed", name, s.NodeName).
			WithHint("leave --node-name out; `ccmadm reset`, and a new start, give a machine another name")
	}
	return nil
}
