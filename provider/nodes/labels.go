package nodes

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// nodePatch is a strategic merge patch: null removes a label. Taints are replaced as a
// whole (k8s.io/api has them as an atomic list), so that they come with the version
// of the Node that they are of.
type nodePatch struct {
	Metadata struct {
		UID         types.UID          `json:"uid"` // so that it fails on the next Node of this name
		Version     string             `json:"resourceVersion,omitempty"`
		Labels      map[string]*string `json:"labels,omitempty"`
		Annotations map[string]string  `json:"annotations,omitempty"`
	} `json:"metadata"`
	Spec struct {
		Taints *[]corev1.Taint `json:"taints,omitempty"` // of none, nil is no change
	} `json:"spec,omitzero"`
}

// difference returns what makes the Node as its machine is listed, or nil, and taints that it is not given. Where
// it stands, upstream writes when it initializes the Node.
func difference(
	node *corev1.Node, m *config.Machine, dropped []corev1.Taint,
) (p *nodePatch, withheld []corev1.Taint) {
	p = &nodePatch{}
	p.Metadata.UID = node.UID
	p.Metadata.Annotations = map[string]string{}
	p.Metadata.Labels = map[string]*string{}
	want, withheld := taintsOf(node, m, dropped)
	if !sameTaints(node.Spec.Taints, want) {
		p.Spec.Taints = &want
		p.Metadata.Version = node.ResourceVersion
	}
	if !uninitialized(node) {
		for key, value := range placeLabels(m) {
			if value != "" && node.Labels[key] != value {
				p.Metadata.Labels[key] = &value
			}
		}
	}
	noted := ownLabels(node, machineLabels(m), p.Metadata.Labels)
	if node.Annotations[v1alpha1.FollowedLabelsAnnotation] != noted {
		p.Metadata.Annotations[v1alpha1.FollowedLabelsAnnotation] = noted
	}
	if len(p.Metadata.Annotations)+len(p.Metadata.Labels) == 0 && p.Spec.Taints == nil {
		return nil, withheld
	}
	return p, withheld
}

// ownLabels adds the changes of a machine's labels to the patch, and returns the
// keys to note: those that are ours from then on, and that do not show it by their
// names. What another program set stays theirs.
func ownLabels(node *corev1.Node, want map[string]string, patch map[string]*string) string {
	before, _ := followed(node)
	before = append(before, v1alpha1.MachineLabel, v1alpha1.RackLabel)
	var ours []string
	for key, value := range want {
		is, there := node.Labels[key]
		if there && is != value && !slices.Contains(before, key) {
			continue
		}
		ours = append(ours, key)
		if is != value || !there {
			patch[key] = &value
		}
	}
	for _, key := range before {
		if _, there := node.Labels[key]; there && !slices.Contains(ours, key) {
			patch[key] = nil
		}
	}
	noted := slices.DeleteFunc(ours, func(key string) bool {
		return key == v1alpha1.MachineLabel || key == v1alpha1.RackLabel
	})
	slices.Sort(noted)
	return strings.Join(noted, ",")
}

// followed returns the keys that the Node's annotation says are ours, and those there that no inventory can have had: a
// kubelet wrote them, which may not touch such a label itself.
func followed(node *corev1.Node) (ours, forged []string) {
	for key := range strings.SplitSeq(node.Annotations[v1alpha1.FollowedLabelsAnnotation], ",") {
		switch {
		case config.MayBeMachineLabel(key):
			ours = append(ours, key)
		case key != "":
			forged = append(forged, key)
		}
	}
	return ours, forged
}

// placeLabels are the well-known labels, the old names too: the node controller
// copies those over the new ones.
func placeLabels(m *config.Machine) map[string]string {
	return map[string]string{
		corev1.LabelTopologyRegion: m.Region, corev1.LabelFailureDomainBetaRegion: m.Region,
		corev1.LabelTopologyZone: m.Zone, corev1.LabelFailureDomainBetaZone: m.Zone,
		corev1.LabelInstanceTypeStable: m.InstanceType, corev1.LabelInstanceType: m.InstanceType,
	}
}

// machineLabels are all others. Upstream writes them together with the provider ID.
func machineLabels(m *config.Machine) map[string]string {
	labels := map[string]string{v1alpha1.MachineLabel: machineLabel(m.ID)}
	maps.Copy(labels, m.Labels)
	if m.Rack != "" {
		labels[v1alpha1.RackLabel] = m.Rack
	}
	return labels
}

// machineLabel is an id as the value of a label, which may be shorter than ids are.
func machineLabel(id string) string {
	if len(id) <= validation.LabelValueMaxLength {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return fmt.Sprintf("%s-%x", id[:46], sum[:8])
}
