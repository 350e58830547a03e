package record

import (
	"fmt"

	"github.com/ccmadm/ccmadm/kubeadm"
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

// NewBare returns the data of a run that reads no configuration: it must work on a machine that is half done.
func NewBare(m *machine.Machine, o workflow.Options, s workflow.Streams, version string) *workflow.Data {
	o.Operation = Ordinary{}
	d := &workflow.Data{Options: o, Streams: s, Version: version, Machine: m, Known: &workflow.Known{}}
	if o.DryRun {
		d.Machine = m.DryRun(s.Out, kubeadm.MaskSecrets)
	}
	return d
}

// ClusterConf is what this machine may ask the cluster with.
func ClusterConf(d *workflow.Data) string {
	if d.Existing {
		return machine.AdminConf
	}
	return machine.KubeletConf
}
