package workflow

import (
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
)

// NoteStage notes that kubeadm has come to a stage. A dry run notes nothing.
func NoteStage(h *Host, stage state.Stage) error {
	if h.DryRun {
		return nil
	}
	s, err := MachineState(h.Env)
	if err != nil {
		return err
	}
	if err := SameMachine(h, s); err != nil {
		return err
	}
	if s.NodeName, err = NodeName(h); err != nil {
		return err
	}
	s.Role, s.Stage = string(h.Role), stage
	return s.Write(h.Machine)
}

// KubeadmFinished tells, by evidence on this machine alone, whether kubeadm has done its work here: then no half of it is run
// again, whatever an API server answers. Clusters made before there was a state file have what kubeadm and ccmadm wrote.
func KubeadmFinished(h *Host) (bool, error) {
	s, err := MachineState(h.Env)
	if err != nil || s.Known && s.Stage != "" {
		return err == nil && s.Stage == state.StageFinished, err
	}
	for _, path := range []string{machine.KubeletConf, machine.KubeletConfig, machine.RecordFile, machine.KubeadmConfig} {
		if there, err := h.Machine.Exists(path); err != nil || !there {
			return false, err
		}
	}
	return RoleOfMachine(h.Machine) == h.Role, nil
}

// RoleOfMachine is told by the kubeadm configuration that ccmadm has written.
func RoleOfMachine(m *machine.Machine) kubeadm.Role {
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

// SameMachine refuses to go on as another node, or in another role.
func SameMachine(h *Host, s *State) error {
	if s.Role != "" && s.Role != string(h.Role) {
		return finding.Refusedf("%s on a machine of `ccmadm %s`: %s says how far that has come", h.Role, s.Role, machine.StateFile).
			WithHint("`ccmadm reset` takes the machine out of its cluster first")
	}
	name, err := NodeName(h)
	if err != nil {
		return err
	}
	if s.NodeName != "" && s.NodeName != name {
		return finding.Refusedf("nodeRegistration.name is %q: this machine is Node/%s, and kubelets cannot be renamed", name, s.NodeName).
			WithHint("leave --node-name out; `ccmadm reset`, and a new start, give a machine another name")
	}
	return nil
}

// ControlPlaneHere tells whether this machine is a control plane, by what kubeadm goes by. One whose administrator
// keeps the credentials elsewhere cannot be upgraded as one, and is no worker.
func ControlPlaneHere(m *machine.Machine) (bool, error) {
	is, err := m.Exists(machine.APIServerPod)
	if err == nil && !is {
		err = refuseHalfControlPlane(m)
	}
	if err != nil || !is {
		return false, err
	}
	there, err := m.Exists(machine.AdminConf)
	if err == nil && !there {
		return true, finding.Refusedf("upgrade this control plane: there is no %s", machine.AdminConf).
			WithHint("put it back for the upgrade; `kubeadm init phase kubeconfig admin`, with --config as at init, makes one. Nothing was changed")
	}
	return true, err
}

// refuseHalfControlPlane tells a control plane whose API server's manifest is away from a worker: kubeadm that is
// killed between two moves leaves it so.
func refuseHalfControlPlane(m *machine.Machine) error {
	const controllers = "/etc/kubernetes/manifests/kube-controller-manager.yaml"
	there, err := m.Exists(controllers)
	if err != nil || !there {
		return err
	}
	return finding.Refusedf("upgrade this machine: there is %s, and no %s", controllers, machine.APIServerPod).
		WithHint("kubeadm keeps what it replaces in /etc/kubernetes/tmp/kubeadm-backup-manifests-*: put it back. " +
			"Nothing was changed")
}
