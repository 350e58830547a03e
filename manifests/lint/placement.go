package lint

import (
	"fmt"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/ccmadm/ccmadm/manifests/edit"
)

const master = roleLabel + "master"

// selector finds the labels that no node of kubeadm's has.
func selector(w *workload) []problem {
	if w.static || !w.initializes() {
		return nil
	}
	var problems []problem
	path := w.in("nodeSelector")
	if value, ok := w.pod.NodeSelector[master]; ok {
		problems = w.problem(
			w.at(append(path, master)...),
			fmt.Sprintf("nodeSelector %s: %q fits no node", master, value),
			func() error {
				return w.replaceKey(master, controlPlane, path)
			},
		)
	} else if value := w.pod.NodeSelector[controlPlane]; value != "" {
		at := w.full(append(path, controlPlane)...)
		problems = w.problem(
			w.doc.At(at),
			fmt.Sprintf("nodeSelector %s: %q, where kubeadm sets no value", controlPlane, value),
			func() error {
				empty := edit.ScalarNode("")
				empty.Style = yaml.DoubleQuotedStyle
				return w.doc.Set(empty, at...)
			},
		)
	}
	return append(problems, nodeAffinity(w)...)
}

// replaceKey changes nodeSelector; its value is the empty one that kubeadm sets.
func (w *workload) replaceKey(from, to string, path []string) error {
	mapping := w.doc.At(w.full(path...))
	if mapping == nil {
		return edit.ErrUneditable
	}
	if edit.IndexOf(mapping, to) < 0 {
		empty := edit.ScalarNode("")
		empty.Style = yaml.DoubleQuotedStyle
		if err := w.doc.Insert(edit.MappingNode(to, empty), w.full(path...)...); err != nil {
			return err
		}
		mapping = w.doc.At(w.full(path...))
	}
	return w.doc.Remove(edit.IndexOf(mapping, from)/2, w.full(path...)...)
}

// nodeAffinity finds terms none of which fits a control plane of kubeadm's.
func nodeAffinity(w *workload) []problem {
	if w.pod.Affinity == nil || w.pod.Affinity.NodeAffinity == nil {
		return nil
	}
	required := w.pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		return nil
	}
	path := w.in("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
	var problems []problem
	for i, term := range required.NodeSelectorTerms {
		bad := slices.IndexFunc(term.MatchExpressions, excludesKubeadm)
		if bad < 0 {
			return nil // terms are alternatives
		}
		e := term.MatchExpressions[bad]
		key := append(slices.Clone(path), strconv.Itoa(i), "matchExpressions", strconv.Itoa(bad), "key")
		var fix func() error
		if e.Operator == corev1.NodeSelectorOpExists {
			fix = w.set(controlPlane, "", key...)
		}
		problems = append(
			problems,
			w.problem(w.at(key...), fmt.Sprintf("node affinity %s %s fits no node", e.Key, e.Operator), fix)...)
	}
	return problems
}

func excludesKubeadm(e corev1.NodeSelectorRequirement) bool {
	switch e.Operator {
	case corev1.NodeSelectorOpExists:
		return e.Key == master
	case corev1.NodeSelectorOpIn:
		return e.Key == master || e.Key == controlPlane && !slices.Contains(e.Values, "")
	}
	return false
}

// oneMachine finds Deployments that need a second machine.
func oneMachine(w *workload) []problem {
	if w.deployment == nil || !w.pod.HostNetwork || !w.initializes() {
		return nil
	}
	var problems []problem
	if starts, ends := rolling(w.deployment); starts > 0 && ends == 0 {
		message := fmt.Sprintf("an update starts %d pod before it ends one, on ports that are taken", starts)
		problems = w.problem(w.at("spec", "strategy"), message, func() error {
			if err := w.set("0", yaml.NodeTagInt, "spec", "strategy", "rollingUpdate", "maxSurge")(); err != nil {
				return err
			}
			return w.set("1", yaml.NodeTagInt, "spec", "strategy", "rollingUpdate", "maxUnavailable")()
		})
	}
	if w.replicas() > 1 {
		message := fmt.Sprintf(
			"%d replicas need as many control planes: on fewer, some stay Pending or fail to listen",
			w.replicas(),
		)
		problems = append(problems, w.problem(w.at("spec", "replicas"), message, nil)...)
	}
	return problems
}

// rolling returns how many pods an update starts early and ends early. Kubernetes rounds up the one and down the other.
func rolling(d *appsv1.Deployment) (starts, ends int) {
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return 0, 1
	}
	replicas := 1
	if d.Spec.Replicas != nil {
		replicas = int(*d.Spec.Replicas)
	}
	quarter := intstr.FromString("25%")
	surge, unavailable := &quarter, &quarter
	if r := d.Spec.Strategy.RollingUpdate; r != nil {
		if r.MaxSurge != nil {
			surge = r.MaxSurge
		}
		if r.MaxUnavailable != nil {
			unavailable = r.MaxUnavailable
		}
	}
	starts, _ = intstr.GetScaledValueFromIntOrPercent(surge, replicas, true) // the API server reports what is neither
	ends, _ = intstr.GetScaledValueFromIntOrPercent(unavailable, replicas, false)
	return starts, ends
}
