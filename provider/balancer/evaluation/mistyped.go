package evaluation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// serviceAnnotations are all of ours that a Service may have.
func serviceAnnotations() []string {
	return []string{
		v1alpha1.AllocatedAnnotation, v1alpha1.PoolAnnotation, v1alpha1.AddressesAnnotation,
		v1alpha1.ShareKeyAnnotation, v1alpha1.ShareNamespacesAnnotation, v1alpha1.LevelAnnotation, v1alpha1.ReassignAnnotation, v1alpha1.PortsAnnotation,
		v1alpha1.MoveToAnnotation,
	}
}

// prefix is that of our annotations and labels.
const prefix = v1alpha1.GroupName + "/"

// mistyped names an annotation or label with our prefix that is not read, and the one that was probably meant, or says why a list in
// one has no effect; empty: there is none. One is enough: a user who writes Services can write thousands, and a condition has an end.
func mistyped(service *corev1.Service) string {
	known := serviceAnnotations()
	for _, key := range slices.Sorted(maps.Keys(service.Annotations)) {
		if !strings.HasPrefix(key, prefix) || slices.Contains(known, key) || key == v1alpha1.EgressLabel {
			continue
		}
		var names []string
		for _, k := range known {
			names = append(names, strings.TrimPrefix(k, prefix))
		}
		text := fmt.Sprintf("annotation %s is unknown", key)
		if name := finding.Nearest(strings.TrimPrefix(key, prefix), names); name != "" {
			text += ": did you mean " + prefix + name + "?"
		}
		return text
	}
	if _, err := v1alpha1.ParseMoveTo(service.Annotations[v1alpha1.MoveToAnnotation]); err != nil {
		return fmt.Sprintf("annotation %s has no effect: %v", v1alpha1.MoveToAnnotation, err)
	}
	return mistypedLabel(service.Labels)
}

// mistypedLabel is about an annotation that was written as a label, and a name close to that of the one label that Services have. Others
// with our prefix may have been copied from Nodes or pods.
func mistypedLabel(labels map[string]string) string {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		name, ours := strings.CutPrefix(key, prefix)
		switch {
		case !ours || key == v1alpha1.EgressLabel:
		case slices.Contains(serviceAnnotations(), key):
			return fmt.Sprintf("label %s has no effect: it is an annotation", key)
		case finding.Nearest(name, []string{strings.TrimPrefix(v1alpha1.EgressLabel, prefix)}) != "":
			return fmt.Sprintf("label %s is unknown: did you mean %s?", key, v1alpha1.EgressLabel)
		}
	}
	return ""
}
