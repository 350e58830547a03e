package phases

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/ccmadm/ccmadm/api/finding"
)

// PlanLine is a node of a plan, as -o json has it.
type PlanLine struct {
	Node       string `json:"node"`
	Role       string `json:"role"`
	Kubelet    string `json:"kubelet"`
	Address    string `json:"address"`
	ProviderID string `json:"providerID,omitempty"`
	// Flags are the kubelet's: "none", or "not told".
	Flags    string   `json:"flags"`
	ToDo     string   `json:"toDo"`
	Problems []string `json:"problems,omitempty"`
}

func (n *plannedNode) line() PlanLine {
	l := PlanLine{
		Node: n.name, Role: "worker", Kubelet: n.version, Address: n.ip, ProviderID: finding.Clean(n.providerID),
		Flags: n.flags, ToDo: "kubelet, initialize", Problems: n.problems,
	}
	if n.controlPlane {
		l.Role = "control plane"
	}
	switch {
	case n.skipped:
		l.ToDo = "skipped"
	case len(n.problems) > 0:
		l.ToDo = "cannot: " + strings.Join(n.problems, "; ")
	case n.external && n.initialized:
		l.ToDo = "nothing"
	case n.initialized:
		l.ToDo = "kubelet"
	case n.external:
		l.ToDo = "initialize"
	}
	return l
}

// showPlan prints a table, and for programs an object for each node.
func showPlan(d *Data, plan []*plannedNode) error {
	if d.Output == "json" {
		encoder := json.NewEncoder(d.Out)
		for _, n := range plan {
			if err := encoder.Encode(n.line()); err != nil {
				return fmt.Errorf("show the plan: %w", err)
			}
		}
	}
	w := tabwriter.NewWriter(d.progress(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NODE\tROLE\tKUBELET\tADDRESS\tPROVIDER ID\tFLAGS\tTO DO")
	for _, n := range plan {
		l := n.line()
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.Node, l.Role, l.Kubelet, l.Address, cmp.Or(l.ProviderID, "none"),
			l.Flags, l.ToDo)
	}
	return w.Flush()
}
