package lint

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/manifests/edit"
)

const roleLabel = "node-role.kubernetes.io/"

// The taints of a control plane that has just been made by kubeadm.
const (
	uninitialized = v1alpha1.UninitializedTaint
	controlPlane  = roleLabel + "control-plane"
	notReady      = corev1.TaintNodeNotReady
)

// tolerates checks one taint. What is added is what ccmadm's own pods have.
func tolerates(key string) func(*workload) []problem {
	return func(w *workload) []problem {
		taint := corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule}
		if key == uninitialized {
			taint.Value = "true"
		}
		if w.static || !w.initializes() ||
			slices.ContainsFunc(w.pod.Tolerations, func(t corev1.Toleration) bool { return tolerated(t, taint) }) {
			return nil
		}
		message := fmt.Sprintf("nothing tolerates %s:%s", key, taint.Effect)
		return w.problem(w.at(w.in("tolerations")...), message, w.tolerate(key))
	}
}

// tolerated follows k8s.io/component-helpers/scheduling/corev1: no effect is any, no key with Exists is any.
func tolerated(t corev1.Toleration, taint corev1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	return t.Operator == corev1.TolerationOpExists || t.Key != "" && t.Value == taint.Value
}

func (w *workload) tolerate(key string) func() error {
	return func() error {
		preset, err := manifests.Preset()
		if err != nil {
			return err
		}
		i := slices.IndexFunc(preset.Tolerations, func(t corev1.Toleration) bool { return t.Key == key })
		if i < 0 {
			return fmt.Errorf("no toleration for %s in the preset", key)
		}
		item := edit.MappingNode("key", edit.ScalarNode(key))
		item.Content = append(
			item.Content,
			edit.ScalarNode("operator"),
			edit.ScalarNode(string(preset.Tolerations[i].Operator)),
		)
		return w.doc.Insert(
			&yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{item}},
			w.full(w.in("tolerations")...)...)
	}
}

// networkUnavailable is what the DaemonSet controller adds by itself, k8s.io/kubernetes/pkg/controller/daemon/util.
func networkUnavailable(w *workload) []problem {
	if w.kind == "DaemonSet" && w.pod.HostNetwork || w.agent {
		return nil
	}
	return tolerates(corev1.TaintNodeNetworkUnavailable)(w)
}
