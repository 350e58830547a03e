package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strconv"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// WriteKubeadmConfig sets external mode, the node IP and the provider ID in kubeadm's configuration, and writes it.
func WriteKubeadmConfig(ctx context.Context, d *workflow.Data, s *settings.Settings) error {
	v, err := d.KubeadmVersion(ctx)
	if err != nil {
		return err
	}
	flags := kubeadm.KubeletFlags{}
	if flags.NodeIP, err = record.NodeIPToSet(ctx, d, s); err != nil {
		return err
	}
	if flags.ProviderID, err = kubeletProviderID(ctx, d, s); err != nil {
		return err
	}
	if err := setEndpoint(d, s); err != nil {
		return err
	}
	changes, err := d.KubeadmFile.SetExternal(d.Role, flags, int(v.Minor()))
	if err != nil {
		return &finding.Error{Code: finding.ExitPreflight, Err: err}
	}
	if err := refuseOtherFirstHalf(d); err != nil {
		return err
	}
	for _, c := range changes {
		d.Sayf("%s", c)
	}
	return d.Write(machine.File{Path: machine.KubeadmConfig, Data: d.KubeadmFile.Bytes(), Mode: 0o600})
}

// refuseOtherFirstHalf keeps what kubeadm's first half has made a control plane of: its second half would publish
// another configuration than that of the components that run.
func refuseOtherFirstHalf(d *workflow.Data) error {
	s, err := workflow.MachineState(d)
	if err != nil || s.Stage != v1alpha1.StageControlPlane || d.Role != kubeadm.RoleInit {
		return err
	}
	data, err := d.Machine.Read(machine.KubeadmConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read what kubeadm's first half was given: %w", err)
	}
	before, err := kubeadm.Parse(machine.KubeadmConfig, data)
	if err != nil {
		return err
	}
	differ, err := before.Differences(d.KubeadmFile)
	if err != nil || len(differ) == 0 {
		return err
	}
	return finding.Refusedf("go on with another configuration than that of the running control plane: %s",
		strings.Join(differ, "; ")).
		WithHint("with the former one the same command goes on from here; for another one, `ccmadm reset` and begin anew: " +
			"no machine has joined yet. Nothing was changed")
}

// VIPEndpoint is the control plane's own address with the API server's port; empty: the cluster has none.
func VIPEndpoint(d *workflow.Data, s *settings.Settings) string {
	return net.JoinHostPort(s.ControlPlaneVIP.Address, strconv.Itoa(workflow.APIServerPort(d)))
}

// setEndpoint makes the address kubeadm's controlPlaneEndpoint. Another one of the user's is a contradiction.
func setEndpoint(d *workflow.Data, s *settings.Settings) error {
	if s.ControlPlaneVIP.Address == "" || d.Role != kubeadm.RoleInit {
		return nil
	}
	endpoint := VIPEndpoint(d, s)
	if said := d.KubeadmFile.ControlPlaneEndpoint(); said != "" && said != endpoint && said != s.ControlPlaneVIP.Address {
		return finding.Usagef("controlPlaneVIP.address %s: kubeadm's controlPlaneEndpoint is %s", s.ControlPlaneVIP.Address, said).
			WithHint("leave controlPlaneEndpoint out: the address becomes it")
	} else if said != "" {
		return nil
	}
	changes, err := d.KubeadmFile.SetControlPlaneEndpoint(endpoint)
	for _, c := range changes {
		d.Sayf("%s", c)
	}
	return err
}
