package phases

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/ccmadm/ccmadm/phases/machine"
)

// NodeFlag is a flag of the kubelet, and where it comes from.
type NodeFlag struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// From is FILE:LINE of each place, the one that wins last.
	From []string `json:"from,omitempty"`
	// Runs says whether the running kubelet has it so.
	Runs bool `json:"runs"`

	// uses are the places of From.
	uses []machine.FlagUse
}

// NodeReport is what `ccmadm node show` says of a machine.
type NodeReport struct {
	// Version is the kubelet's.
	Version string `json:"version"`
	// Kubelet is its process; nil: it does not run.
	Kubelet *kubeletProcess `json:"kubelet,omitempty"`
	// Flags are those that have to do with the cloud.
	Flags []NodeFlag `json:"flags"`
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
	report := &NodeReport{Version: strings.TrimPrefix(strings.TrimSpace(string(out)), "Kubernetes ")}
	if report.Kubelet, err = runningKubelet(ctx, m); err != nil {
		return nil, err
	}
	for _, name := range []string{"cloud-provider", "cloud-config", "node-ip", "hostname-override", "provider-id"} {
		flag, err := showFlag(m, report.Kubelet, name)
		if err != nil {
			return nil, err
		}
		if flag != nil {
			report.Flags = append(report.Flags, *flag)
		}
	}
	return report, nil
}

// showFlag is nil for a flag that stands nowhere.
func showFlag(m *machine.Machine, k *kubeletProcess, name string) (*NodeFlag, error) {
	uses, err := m.KubeletFlags(name)
	if err != nil {
		return nil, err
	}
	flag := NodeFlag{Name: name}
	if own, err := m.Read(machine.KubeletEnvFile); err == nil {
		ours := kubeletProcess{Args: strings.FieldsFunc(string(own), func(r rune) bool { return r <= ' ' || r == '"' })}
		if value, is := ours.flag(name); is {
			flag.Value, flag.From = value, append(flag.From, m.Path(machine.KubeletEnvFile))
			flag.uses = append(flag.uses, machine.FlagUse{File: m.Path(machine.KubeletEnvFile), Flag: name, Value: value})
		}
	}
	flag.uses = append(flag.uses, uses...)
	for _, u := range uses {
		flag.Value, flag.From = u.Value, append(flag.From, fmt.Sprintf("%s:%d", u.File, u.Line))
	}
	if k != nil {
		value, is := k.flag(name)
		flag.Runs = is && (value == flag.Value || len(flag.From) == 0)
		flag.Value = cmp.Or(flag.Value, value)
	}
	if flag.Value == "" && len(flag.From) == 0 {
		return nil, nil // it stands nowhere, which is an answer
	}
	return &flag, nil
}
