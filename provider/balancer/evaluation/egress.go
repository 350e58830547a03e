package evaluation

import (
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

// noEgress says why label ccmadm.dev/egress of a Service has no effect. Empty: it has, or there is none.
func (e *Inputs) noEgress(as *allocator.Assignment) string {
	label, wanted := as.Service.Labels[v1alpha1.EgressLabel]
	because := ""
	switch {
	case as.Service.Annotations[v1alpha1.EgressLabel] != "":
		return "annotation " + v1alpha1.EgressLabel + " has no effect: it is a label"
	case !wanted || label == "false":
		return ""
	case label != "true":
		because = "its value must be true"
	case as.NodeIP:
		because = "the Service has the addresses of Nodes, and needs one of level L2"
	default:
		for _, address := range as.Addresses() {
			level := e.Plan.Claims[address].Level
			if level.Elected() {
				return e.cannotSend()
			}
			because = "at level " + string(level) + " no Node owns the address; it needs level L2"
		}
	}
	if because == "" {
		return ""
	}
	return "label " + v1alpha1.EgressLabel + " has no effect: " + because
}

// cannotSend names Nodes that cannot send packets with the address: others leave it to them only where there is no other.
func (e *Inputs) cannotSend() string {
	var names []string
	for _, agent := range e.Reports.Agents {
		if !agent.Status.Egress {
			names = append(names, "Node/"+agent.Name)
		}
	}
	slices.Sort(names) // a cache lists them in any order
	switch {
	case len(names) == 0:
		return ""
	case len(names) > shownNodes:
		names = append(names[:shownNodes], "others")
	}
	return "packets of pods cannot leave with the address on " + strings.Join(names, ", ") + ": see the logs of the node agents"
}

// shownNodes is how many Nodes a condition names.
const shownNodes = 3
