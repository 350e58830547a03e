package planner

import (
	"cmp"
	"fmt"
	"io"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/table"
)

// WriteText writes the plan for people.
func (p *Plan) WriteText(out io.Writer) error {
	fmt.Fprintf(out, "Kubernetes %s -> %s\n\n", p.Now, p.Then)
	w := table.New(out, "COMPONENT", "NODE", "NOW", "THEN")
	for _, c := range p.Components {
		w.Row(c.Component, c.Node, c.Now, c.Then)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := p.WriteMachines(out); err != nil {
		return err
	}
	m := p.Manager
	fmt.Fprintf(out, "\nThe cloud-controller-manager, mode %s", m.Mode)
	if m.Serves != "" {
		fmt.Fprintf(out, ", is for Kubernetes %s now", m.Serves)
	}
	if m.Rule != "" {
		fmt.Fprintf(out, ": %s", m.Rule)
	}
	fmt.Fprintln(out)
	if len(p.Images) > 0 {
		fmt.Fprintln(out, "\nImages:")
	}
	for _, image := range p.Images {
		fmt.Fprintf(out, "  %s\n", image)
	}
	if !p.kubeadmFits() {
		fmt.Fprintf(out, "\nkubeadm's own plan comes with kubeadm %s; here is %s.\n", p.Then, cmp.Or(p.Kubeadm, "none"))
	}
	if len(p.Findings) > 0 {
		fmt.Fprintln(out)
	}
	if err := finding.WriteText(out, p.Findings); err != nil {
		return err
	}
	return p.WriteSteps(out)
}

// WriteMachines writes what the machines have that are upgraded from here, and what is done there.
func (p *Plan) WriteMachines(out io.Writer) error {
	if len(p.Machines) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	w := table.New(out, "MACHINE", "ROLE", "KUBEADM", "KUBELET", "CCMADM", "TO DO")
	for _, m := range p.Machines {
		w.Row(m.Node, m.Role, m.Kubeadm, m.Kubelet, m.Ccmadm, m.ToDo)
	}
	return w.Flush()
}

// WriteSteps writes what is to be done, in its order.
func (p *Plan) WriteSteps(out io.Writer) error {
	if len(p.Steps) == 0 && len(p.Blocked()) == 0 {
		_, err := fmt.Fprintln(out, "\nNothing is to be done.")
		return err
	}
	if len(p.Steps) > 0 {
		fmt.Fprintln(out, "\nIn this order:")
	}
	for i, s := range p.Steps {
		where := ""
		if s.Node != "" {
			where = "on " + s.Node + ": "
		}
		fmt.Fprintf(out, "%3d. %s%s\n", i+1, where, finding.Clean(s.What))
		for _, command := range s.Commands {
			fmt.Fprintf(out, "       %s\n", finding.Clean(command))
		}
	}
	return nil
}
