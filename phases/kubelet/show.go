package kubelet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// RefusePlain goes by what a machine says of its files, of which ours goes with the step.
func (r *NodeReport) RefusePlain() error {
	for _, f := range r.Flags {
		if f.Name != "cloud-provider" && f.Name != "node-ip" {
			continue
		}
		var places []string
		for _, place := range f.From {
			if place != machine.KubeletEnvFile {
				places = append(places, finding.Clean(place))
			}
		}
		switch {
		case len(places) > 1:
			return finding.Refusedf("%w", SetTwice(f.Name, places...)).WithHint("remove one of the two")
		case f.Name != "cloud-provider" || len(places) == 0:
		case !strings.HasPrefix(places[0], machine.KubeadmFlags+":"):
			return isAdministrators(places[0] + ": --cloud-provider=" + finding.Clean(f.Value))
		}
	}
	return nil
}

// NodeReport is what `ccmadm node show` says of a machine.
type NodeReport struct {
	Whose `json:",inline"`

	// Release is that of the ccmadm that says this.
	Release string `json:"release,omitempty"`
	// Version is the kubelet's.
	Version string `json:"version"`
	// Kubeadm is kubeadm's, and Ccmadm that of the one in the machine's PATH; empty: it is not installed.
	Kubeadm string `json:"kubeadm,omitempty"`
	Ccmadm  string `json:"ccmadm,omitempty"`
	// Packages is the program that installs packages; empty: none that is known.
	Packages string `json:"packages,omitempty"`
	// Upgraded is the version to which kubeadm has upgraded the machine, under ccmadm.
	Upgraded string `json:"upgraded,omitempty"`
	// Upgrading is the upgrade that was begun there, and has not come to its end.
	Upgrading string `json:"upgrading,omitempty"`
	// NoUpgrade is why it can be upgraded neither as a control plane nor as a worker.
	NoUpgrade string `json:"noUpgrade,omitempty"`
	// Worker says that kubeadm takes the machine for a worker.
	Worker bool `json:"worker,omitempty"`
	// Astray are directories that an upgrade goes by and that lead this process elsewhere than the machine itself.
	Astray []string `json:"astray,omitempty"`
	// Lacks are those of the files that it was asked for and that are not there.
	Lacks []string `json:"lacks,omitempty"`
	// Kubelet is its process; nil: it does not run.
	Kubelet *machine.Kubelet `json:"kubelet,omitempty"`
	// Flags are those that have to do with the cloud.
	Flags []machine.KubeletFlag `json:"flags"`
}

// FlagsText is the flags in a line, each with where it is from.
func (r *NodeReport) FlagsText() string {
	var list []string
	for _, f := range r.Flags {
		list = append(list, fmt.Sprintf("--%s=%s (%s)", f.Name, f.Value, strings.Join(f.From, ", ")))
	}
	return cmp.Or(strings.Join(list, " "), "none")
}

// ShowNode looks at the kubelet of this machine, at what an upgrade goes by, and whether these files are there. It
// writes nothing.
func ShowNode(ctx context.Context, m *machine.Machine, files ...string) (*NodeReport, error) {
	out, err := m.Output(ctx, "kubelet", "--version")
	if err != nil {
		return nil, fmt.Errorf("ask for the kubelet's version: %w", err)
	}
	report := &NodeReport{
		Whose: WhoseMachine(m), Version: strings.TrimPrefix(strings.TrimSpace(string(out)), "Kubernetes "),
	}
	if report.Kubelet, err = m.RunningKubelet(ctx); err != nil {
		return nil, err
	}
	if err := report.showPrograms(ctx, m); err != nil {
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
	for _, file := range files {
		there, err := m.Exists(file)
		if err != nil {
			return nil, err
		}
		if !there {
			report.Lacks = append(report.Lacks, file)
		}
	}
	return report, nil
}

// showPrograms looks for what an upgrade goes by. A program that is not there has no release; one that does not answer
// is an error.
func (r *NodeReport) showPrograms(ctx context.Context, m *machine.Machine) error {
	for _, p := range []struct {
		release *string
		line    []string
	}{
		{&r.Kubeadm, []string{"kubeadm", "version", "--output=short"}},
		{&r.Ccmadm, []string{"ccmadm", "version", "--output=short"}},
	} {
		out, err := m.Output(ctx, p.line[0], p.line[1:]...)
		if err != nil && !errors.Is(err, machine.ErrNotFound) {
			return fmt.Errorf("ask for the release of %s: %w", p.line[0], err)
		}
		*p.release = strings.TrimSpace(string(out))
	}
	s, err := workflow.MachineState(workflow.NewEnv(m, workflow.Streams{}, "", false))
	if err != nil {
		return err
	}
	if r.Upgrading = s.Upgrading; s.KubeletFlags == "" && s.Upgrading == "" { // else an upgrade is under way
		r.Upgraded = s.Upgraded
	}
	var refused *finding.Error
	if is, err := workflow.ControlPlaneHere(m); errors.As(err, &refused) {
		r.NoUpgrade = refused.Error()
	} else if err != nil {
		return err
	} else {
		r.Worker = !is
	}
	r.Astray, err = astrayOf(m, "/etc/kubernetes", filepath.Dir(machine.APIServerPod), machine.PKIDir,
		filepath.Dir(machine.KubeadmFlags), "/etc/systemd/system")
	if err != nil {
		return err
	}
	r.Packages, err = packageManager(m)
	return err
}

// packageManager is the program that installs packages on this machine; empty: none that is known.
func packageManager(m *machine.Machine) (string, error) {
	for _, name := range []string{"apt-get", "dnf", "yum"} {
		if there, err := m.Exists(filepath.Join("/usr/bin", name)); err != nil || there {
			return name, err
		}
	}
	return "", nil
}
