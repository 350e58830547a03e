package components

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// unlisted are pods of kube-system that belong to what no list shows: static pods that kubeadm did not write, such as kube-vip, keepalived
// and haproxy, on which the API server's address may depend, and StatefulSets.
func (j *judge) unlisted() []finding.Finding {
	var list []finding.Finding
	for i := range j.Static {
		p := &j.Static[i]
		name := strings.TrimSuffix(p.Name, "-"+p.Spec.NodeName)
		if isStatic(p) || podPrefix+name == j.Manager {
			continue
		}
		list = append(list, j.unready("", []*corev1.Pod{p}, name+": its static pod on "+p.Spec.NodeName+" is not ready", "")...)
	}
	sets := map[string][]*corev1.Pod{}
	for i := range j.Unready {
		p := &j.Unready[i]
		at := slices.IndexFunc(p.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == statefulSet })
		if at >= 0 && podPrefix+p.Name != j.Manager {
			name := p.OwnerReferences[at].Name
			sets[name] = append(sets[name], p)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sets)) {
		count := fmt.Sprintf("%s: %s not ready", name, finding.Count(len(sets[name]), "pod"))
		list = append(list, j.unready(statefulSet+"/"+v1alpha1.Namespace+"/"+name, sets[name], count, "")...)
	}
	return list
}

const (
	statefulSet = "StatefulSet"
	podPrefix   = "Pod/" + v1alpha1.Namespace + "/"
)

// isStatic tells whether a static pod is one that kubeadm writes.
func isStatic(p *corev1.Pod) bool {
	return slices.Contains(static(), p.Labels[v1alpha1.ComponentLabel])
}
