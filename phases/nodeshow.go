package phases

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/ccmadm/ccmadm/phases/machine"
)

// NodeReport is what `ccmadm node show` says of a machine.
type NodeReport struct {
	Whose `json:",inline"`

	// Version is the kubelet's.
	Version string `json:"version"`
	// Kubelet is its process; nil: it does not run.
	Kubelet *machine.Kubelet `json:"kubelet,omitempty"`
	// Flags are those that have to do with the cloud.
	Flags []machine.KubeletFlag `json:"flags"`
}

// flagsText is the flags in a line, each with where it is from.
func (r *NodeReport) flagsText() string {
	var list []string
	for _, f := range r.Flags {
		list = append(list, fmt.Sprintf("--%s=%s (%s)", f.Name, f.Value, strings.Join(f.From, ", ")))
	}
	return cmp.Or(strings.Join(list, " "), "none")
}

// ShowNode looks at the kubelet of this machine. It writes nothing.
func ShowNode(ctx context.Context, m *machine.Machine) (*NodeReport, error) {
	out, err := m.Output(ctx, "kubelet", "--version")
	if err != nil {
		return nil, fmt.Errorf("ask for the kubelet's version: %w", err)
	}
	report := &NodeReport{
		Whose: whoseMachine(m), Version: strings.TrimPrefix(strings.TrimSpace(string(out)), "Kubernetes "),
	}
	if report.Kubelet, err = m.RunningKubelet(ctx); err != nil {
		return nil, err
	}
	for _, name := range []string{"cloud-provider", "cloud-config", "node-ip", "hostname-override", "provider-id"} {
		flag, err := m.KubeletFlag(report.Kubelet, name)
		if err != nil {
			return nil, err
		}
		if flag != nil {
			report.Flags = append(report.Flags, *flag)
		}
	}
	return report, nil
}
