package nodes

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/inventory"
)

// The actions. A Node that is Stuck stays as it is until a person has done
// something; the cloud-controller-manager tells so in an Event.
const (
	Unchanged  Action = "unchanged"
	Initialize Action = "initialize"
	Update     Action = "update"
	Delete     Action = "delete"
	Stuck      Action = "stuck"
)

// labelChanges are those of labels and taints.
func labelChanges(node *corev1.Node, m *config.Machine, dropped []corev1.Taint) []Change {
	later := node.DeepCopy() // the follower labels a Node once it is initialized
	later.Spec.Taints = slices.DeleteFunc(later.Spec.Taints, isUninitializedTaint)
	patch, _ := difference(later, m, dropped)
	if patch == nil {
		patch = &nodePatch{}
	}
	var changes []Change
	for key, value := range patch.Metadata.Labels {
		if isRepeated(key) {
			continue
		}
		change := Change{Field: "label " + key, Old: node.Labels[key]}
		if value != nil {
			change.New = *value
		}
		changes = append(changes, change)
	}
	slices.SortFunc(changes, func(a, b Change) int { return cmp.Compare(a.Field, b.Field) })
	want, _ := taintsOf(node, m, dropped)
	for _, taint := range want {
		if !has(node.Spec.Taints, taint) {
			changes = append(changes, Change{Field: "taint", New: taint.ToString()})
		}
	}
	for _, taint := range node.Spec.Taints {
		if !has(want, taint) {
			changes = append(changes, Change{Field: "taint", Old: taint.ToString()})
		}
	}
	return append(changes, maintenanceChange(node, m)...)
}

// isRepeated knows the labels that say again what a newer one says, or the plan.
func isRepeated(key string) bool {
	return key == v1alpha1.MachineLabel || key == corev1.LabelFailureDomainBetaRegion ||
		key == corev1.LabelFailureDomainBetaZone || key == corev1.LabelInstanceType
}

func addressText(addresses []corev1.NodeAddress) string {
	var all []string
	for _, a := range addresses {
		all = append(all, string(a.Type)+"="+a.Address)
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

// unlisted says why nothing happens to a Node that is none of the machines.
func (p *planner) unlisted(node *corev1.Node, m *config.Machine) string {
	_, _, ours := inventory.Split(node.Spec.ProviderID)
	switch {
	case m != nil:
		return ""
	case node.Spec.ProviderID != "" && !ours:
		return "Node of another provider: never changed"
	}
	return "not listed: adopted"
}
