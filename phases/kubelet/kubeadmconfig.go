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
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// WriteKubeadmConfig sets external mode, the node IP and the provider ID in kubeadm's configuration, and writes it.
func WriteKubeadmConfig(ctx context.Context, h *workflow.Host, s *settings.Settings) error {
	v, err := h.KubeadmVersion(ctx)
	if err != nil {
		return err
	}
	flags := kubeadm.KubeletFlags{}
	if flags.NodeIP, err = record.NodeIPToSet(ctx, h, s); err != nil {
		return err
	}
	if flags.ProviderID, err = kubeletProviderID(ctx, h, s); err != nil {
		return err
	}
	if err := setEndpoint(h, s); err != nil {
		return err
	}
	changes, err := h.KubeadmFile.SetExternal(h.Role, flags, int(v.Minor()))
	if err != nil {
		return &finding.Error{Code: finding.ExitPreflight, Err: err}
	}
	if err := refuseOtherFirstHalf(h); err != nil {
		return err
	}
	for _, c := range changes {
		h.Sayf("%s", c)
	}
	return h.Write(machine.File{Path: machine.KubeadmConfig, Data: h.KubeadmFile.Bytes(), Mode: 0o600})
}

// refuseOtherFirstHalf keeps what kubeadm's first half has made a control plane of: its second half would publish
// another configuration than that of the components that run.
func refuseOtherFirstHalf(h *workflow.Host) error {
	s, err := workflow.MachineState(h.Env)
	if err != nil || s.Stage != state.StageControlPlane || h.Role != kubeadm.RoleInit {
		return err
	}
	data, err := h.Machine.Read(machine.KubeadmConfig)
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
	differ, err := before.Differences(h.KubeadmFile)
	if err != nil || len(differ) == 0 {
		return err
	}
	return finding.Refusedf("use this configuration: it differs from that of the running control plane: %s",
		strings.Join(differ, "; ")).
		WithHint("restore the former configuration and run the same command again, or run `ccmadm reset` and start over: " +
			"no machine has joined yet. Nothing was changed")
}

// VIPEndpoint is the control plane's own address with the API server's port; empty: the cluster has none.
func VIPEndpoint(h *workflow.Host, s *settings.Settings) string {
	return net.JoinHostPort(s.ControlPlaneVIP.Address, strconv.Itoa(workflow.APIServerPort(h)))
}

// setEndpoint makes the address kubeadm's controlPlaneEndpoint. Another one of the user's is a contradiction.
func setEndpoint(h *workflow.Host, s *settings.Settings) error {
	if s.ControlPlaneVIP.Address == "" || h.Role != kubeadm.RoleInit {
		return nil
	}
	endpoint := VIPEndpoint(h, s)
	if said := h.KubeadmFile.ControlPlaneEndpoint(); said != "" && said != endpoint && said != s.ControlPlaneVIP.Address {
		return finding.Usagef("controlPlaneVIP.address %s: kubeadm's controlPlaneEndpoint is %s", s.ControlPlaneVIP.Address, said).
			WithHint("leave controlPlaneEndpoint out: the address becomes it")
	} else if said != "" {
		return nil
	}
	changes, err := h.KubeadmFile.SetControlPlaneEndpoint(endpoint)
	for _, c := range changes {
		h.Sayf("%s", c)
	}
	return err
}
