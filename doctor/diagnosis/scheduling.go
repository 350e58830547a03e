package diagnosis

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// scheduling says why no Node takes a manager's pods: it looks at each Node as the scheduler does.
func scheduling(v *view) []finding.Finding {
	var list []finding.Finding
	for i := range v.managers {
		m := &v.managers[i]
		if v.unplaced(m) {
			list = append(list, v.placement(m)...)
		}
	}
	return list
}

// unplaced reports whether a manager has a pod without a Node, or is a DaemonSet that fits none.
func (v *view) unplaced(m *manager) bool {
	if m.wanted == 0 && len(m.pods) == 0 {
		return true
	}
	return slices.ContainsFunc(m.pods, func(p *corev1.Pod) bool {
		return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse
		})
	})
}

// placement looks for the Node that lacks least: what keeps the pod from there is what there is to change.
func (v *view) placement(m *manager) []finding.Finding {
	pod := &corev1.Pod{Spec: *m.pod}
	affinity := nodeaffinity.GetRequiredNodeAffinity(pod)
	var best []corev1.Taint
	fits, chosen := 0, ""
	for i := range v.Nodes {
		n := &v.Nodes[i]
		if ok, err := affinity.Match(n); err != nil || !ok {
			continue
		}
		missing := untolerated(m.pod.Tolerations, n.Spec.Taints)
		if fits == 0 || len(missing) < len(best) {
			best, chosen = missing, n.Name
		}
		fits++
	}
	switch {
	case len(v.Nodes) == 0:
		return nil
	case fits == 0:
		f := finding.ID("B4").
			New(m.object, fmt.Sprintf("its pods require a Node with %s, and none of %d has it", selectorText(m.pod), len(v.Nodes)))
		f.Next = v.withoutSelector(m)
		return []finding.Finding{f}
	case len(best) == 0 && slices.ContainsFunc(m.pods, portsTaken):
		f := finding.ID("B5").New(m.object, "Node "+chosen+" and all others have a pod on the ports that it wants")
		if strings.HasPrefix(m.object, "Deployment/") && len(m.pods) > fits {
			f.Next = fmt.Sprintf("kubectl -n %s scale %s --replicas=%d", m.namespace, workloadOf(m), fits)
		}
		return []finding.Finding{f}
	}
	return untoleratedFindings(m, best, chosen, fits)
}

// withoutSelector is the command that takes the pod's nodeSelector away, where a Node would do without it.
func (v *view) withoutSelector(m *manager) string {
	pod := &corev1.Pod{Spec: *m.pod}
	pod.Spec.NodeSelector = nil
	affinity := nodeaffinity.GetRequiredNodeAffinity(pod)
	fits := slices.ContainsFunc(v.Nodes, func(n corev1.Node) bool {
		ok, err := affinity.Match(&n)
		return err == nil && ok
	})
	if !fits || len(m.pod.NodeSelector) == 0 {
		return "kubectl get nodes --show-labels"
	}
	return fmt.Sprintf(
		`kubectl -n %s patch %s --type=json -p '[{"op":"remove","path":"/spec/template/spec/nodeSelector"}]'`,
		m.namespace,
		workloadOf(m),
	)
}

func untoleratedFindings(m *manager, taints []corev1.Taint, node string, fits int) []finding.Finding {
	var list []finding.Finding
	for _, t := range taints {
		id, known := taintRules()[t.Key]
		if !known || slices.ContainsFunc(list, func(f finding.Finding) bool { return f.ID == id }) {
			continue
		}
		f := id.New(
			m.object,
			fmt.Sprintf("its pods do not tolerate taint %s (%s), which keeps them from Node %s, the nearest of %d",
				t.Key, t.Effect, node, fits),
		)
		keys := []string{t.Key}
		if len(m.pod.Tolerations) == 0 { // each would replace the list of the former
			keys = knownKeys(taints)
		}
		if data, err := json.Marshal(tolerating(m.pod.Tolerations, keys)); err == nil {
			f.Next = fmt.Sprintf("kubectl -n %s patch %s --type=json -p '%s'", m.namespace, workloadOf(m), data)
		}
		list = append(list, f)
	}
	return list
}

// knownKeys are the keys of taints that a rule is about, each once.
func knownKeys(taints []corev1.Taint) []string {
	var keys []string
	for _, t := range taints {
		if _, known := taintRules()[t.Key]; known && !slices.Contains(keys, t.Key) {
			keys = append(keys, t.Key)
		}
	}
	return keys
}

func workloadOf(m *manager) string {
	kind, _, _ := strings.Cut(m.object, "/")
	return strings.ToLower(kind) + "/" + m.name
}

// taintRules are the rules of lint about the taints of a new cluster.
func taintRules() map[string]finding.ID {
	return map[string]finding.ID{
		v1alpha1.UninitializedTaint:        "B1",
		corev1.TaintNodeNotReady:           "B2",
		v1alpha1.ControlPlaneLabel:         "B3",
		corev1.TaintNodeNetworkUnavailable: "F2",
	}
}

func untolerated(tolerations []corev1.Toleration, taints []corev1.Taint) []corev1.Taint {
	var list []corev1.Taint
	for _, t := range taints {
		tolerated := slices.ContainsFunc(
			tolerations,
			func(x corev1.Toleration) bool { return x.ToleratesTaint(klog.Logger{}, &t, false) },
		)
		if t.Effect != corev1.TaintEffectPreferNoSchedule && !tolerated {
			list = append(list, t)
		}
	}
	return list
}

func portsTaken(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && strings.Contains(c.Message, "free ports")
	})
}

// selectorText names what a pod wants of a Node's labels.
func selectorText(pod *corev1.PodSpec) string {
	var list []string
	for key, value := range pod.NodeSelector {
		list = append(list, key+"="+value)
	}
	slices.Sort(list)
	if a := pod.Affinity; a != nil && a.NodeAffinity != nil &&
		a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		for _, t := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			for _, e := range t.MatchExpressions {
				list = append(list, strings.TrimSpace(e.Key+" "+string(e.Operator)+" "+strings.Join(e.Values, ",")))
			}
		}
	}
	return "label " + some(list, 4)
}

// tolerating are the operations of a JSON patch. A list that is not there cannot be appended to.
func tolerating(there []corev1.Toleration, keys []string) []map[string]any {
	const path = "/spec/template/spec/tolerations"
	var ops []map[string]any
	var all []corev1.Toleration
	for _, key := range keys {
		one := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists}
		ops = append(ops, map[string]any{"op": "add", "path": path + "/-", "value": one})
		all = append(all, one)
	}
	if len(there) == 0 {
		return []map[string]any{{"op": "add", "path": path, "value": all}}
	}
	return ops
}
