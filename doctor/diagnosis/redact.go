package diagnosis

import (
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Taken out is what looks like a credential: by its name, by its form.
var (
	named = regexp.MustCompile(`(?i)((?:password|passwd|token|secret|api[-_]?key|access[-_]?key(?:[-_]?id)?|credentials?|authorization)` +
		`\\?["']?\s*[=:]\s*)(?:(?:bearer|basic)\s+)?(\\?"[^"]*"?|\\?'[^']*'?|[^\s"',]+)`)
	formed = regexp.MustCompile(`eyJ[\w-]{8,}\.[\w-]+\.[\w-]*|AKIA[0-9A-Z]{16}|-----BEGIN [A-Z ]*PRIVATE KEY-----.*|(?i:bearer) [\w.~+/-]{8,}=*`)
	inURL  = regexp.MustCompile(`(://[^/\s:@]+:)[^/\s@]+@`)
)

const redacted = "(redacted)"

// redact takes credentials out of a text. A value that is a word of a flag stays.
func redact(text string) string {
	text = named.ReplaceAllStringFunc(text, func(match string) string {
		parts := named.FindStringSubmatch(match)
		if slices.Contains([]string{"", "true", "false", redacted}, strings.Trim(parts[2], `\"'`)) {
			return match
		}
		return parts[1] + redacted
	})
	text = formed.ReplaceAllString(text, redacted)
	return inURL.ReplaceAllString(text, "${1}"+redacted+"@")
}

// trimMeta keeps of an object's metadata what a detector may ask for.
func trimMeta(m *metav1.ObjectMeta, annotations ...string) {
	kept := map[string]string{}
	for name, value := range m.Annotations {
		if slices.Contains(annotations, name) || strings.HasPrefix(name, v1alpha1.GroupName+"/") {
			kept[name] = redact(value)
		}
	}
	m.Annotations, m.ManagedFields, m.UID, m.ResourceVersion = kept, nil, "", ""
}

func trimNode(n *corev1.Node) {
	trimMeta(&n.ObjectMeta, v1alpha1.ProvidedNodeIPAnnotation)
	n.Status = corev1.NodeStatus{Conditions: n.Status.Conditions, Addresses: n.Status.Addresses, NodeInfo: n.Status.NodeInfo}
}

func trimLease(l *coordinationv1.Lease) {
	l.ObjectMeta = metav1.ObjectMeta{Namespace: l.Namespace, Name: l.Name, CreationTimestamp: l.CreationTimestamp}
}

func trimPod(p *corev1.Pod) {
	trimMeta(&p.ObjectMeta, corev1.MirrorPodAnnotationKey)
	trimPodSpec(&p.Spec)
	p.Status.InitContainerStatuses, p.Status.EphemeralContainerStatuses = nil, nil
	for i := range p.Status.ContainerStatuses {
		s := &p.Status.ContainerStatuses[i]
		for _, state := range []*corev1.ContainerState{&s.State, &s.LastTerminationState} {
			if state.Waiting != nil {
				state.Waiting.Message = redact(state.Waiting.Message)
			}
			if state.Terminated != nil {
				state.Terminated.Message = redact(state.Terminated.Message)
			}
		}
	}
}

// trimPodSpec keeps of variables the names, and the values of those that say where the API server is.
func trimPodSpec(s *corev1.PodSpec) {
	s.InitContainers, s.EphemeralContainers = nil, nil
	for i := range s.Containers {
		c := &s.Containers[i]
		for j := range c.Env {
			if e := &c.Env[j]; e.Value != "" && !strings.HasPrefix(e.Name, "KUBERNETES_SERVICE_") {
				e.Value = redacted
			}
		}
		for _, list := range [][]string{c.Command, c.Args} {
			for j := range list {
				list[j] = redact(list[j])
				if j > 0 && secretFlag.MatchString(list[j-1]) {
					list[j] = redacted
				}
			}
		}
	}
}

// redactKubeadm takes credentials out of kubeadm's configuration, which has arguments and variables as pairs of name and
// value. What cannot be read as such is left out.
func redactKubeadm(text string) string {
	var config map[string]any
	if yaml.Unmarshal([]byte(text), &config) != nil || len(config) == 0 {
		return ""
	}
	redactPairs(config, "")
	data, err := yaml.Marshal(config)
	if err != nil {
		return ""
	}
	return redact(string(data))
}

// redactPairs goes through a document; under is the field that a list is in.
func redactPairs(value any, under string) {
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			redactPairs(item, under)
		}
	case map[string]any:
		if name, pair := value["name"].(string); pair && value["value"] != nil &&
			(under == "extraEnvs" || secretFlag.MatchString("--"+name)) {
			value["value"] = redacted
		}
		for field, item := range value {
			redactPairs(item, field)
		}
	}
}

// secretFlag is one whose value is the next item.
var secretFlag = regexp.MustCompile(`(?i)^--?[\w-]*(password|token|secret|key)$`)

func trimTemplate(meta *metav1.ObjectMeta, t *corev1.PodTemplateSpec) {
	trimMeta(meta)
	trimMeta(&t.ObjectMeta)
	trimPodSpec(&t.Spec)
}

func trimDeployment(d *appsv1.Deployment) { trimTemplate(&d.ObjectMeta, &d.Spec.Template) }

func trimDaemonSet(d *appsv1.DaemonSet) { trimTemplate(&d.ObjectMeta, &d.Spec.Template) }

func trimEvent(e *corev1.Event) {
	trimMeta(&e.ObjectMeta)
	e.Message = redact(e.Message)
}

func trimService(s *corev1.Service) {
	trimMeta(&s.ObjectMeta)
	s.Spec.Selector = nil
}
