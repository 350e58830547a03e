package record

import (
	"fmt"

	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// EtcdData is where kubeadm's etcd of this machine keeps its data; empty: it has none, as beside an external one.
func EtcdData(m *machine.Machine) (string, error) {
	pod, err := ReadStaticPod(m, machine.EtcdManifest)
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

// NewBare returns a run that reads no configuration: it must work on a machine that is half done.
func NewBare(m *machine.Machine, in workflow.Inputs, s workflow.Streams, version string) *workflow.Run {
	in.Operation = Ordinary{}
	return workflow.NewRun(m, in, s, version)
}

// ClusterConf is what this machine may ask the cluster with.
func ClusterConf(env *workflow.Env) string {
	if env.Existing {
		return machine.AdminConf
	}
	return machine.KubeletConf
}
