package lint

import (
	"fmt"
	"strings"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/templates"
)

// podSecurity sees Namespaces that are in the same files.
func podSecurity(w *workload) []problem {
	level := w.enforced
	if w.static || !w.pod.HostNetwork || level == "" || level == "privileged" {
		return nil
	}
	return w.problem(nil, fmt.Sprintf("namespace %s enforces pod security %q", w.namespace, level), nil)
}

func imageTag(w *workload) []problem {
	image := w.main().Image
	if strings.Contains(image, "@") || image != templates.Repository(image) && !strings.HasSuffix(image, ":latest") {
		return nil
	}
	return w.problem(w.at(w.of("image")...), fmt.Sprintf("image %q has no version", image), nil)
}

// apiVersions finds versions that no supported API server has.
func apiVersions(s *Set) []problem {
	var problems []problem
	for _, o := range s.objects {
		served := ""
		switch o.kind {
		case "Deployment", "DaemonSet":
			served = "apps/v1"
		case "ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding":
			served = "rbac.authorization.k8s.io/v1"
		}
		if served == "" || o.apiVersion == served {
			continue
		}
		p := problem{
			object:  o,
			at:      o.at("apiVersion"),
			message: fmt.Sprintf("%s has no %s: want %s", o.apiVersion, o.kind, served),
		}
		spec, _ := o.content["spec"].(map[string]any)
		if o.kind != "Deployment" && o.kind != "DaemonSet" || spec["selector"] != nil { // apps/v1 needs one
			p.fix = o.set(served, "", "apiVersion")
		}
		problems = append(problems, p)
	}
	return problems
}

// externalIPs finds Services with addresses that a later kube-proxy does not serve.
func externalIPs(s *Set) []problem {
	var problems []problem
	for _, o := range s.objects {
		spec, _ := o.content["spec"].(map[string]any)
		if list, _ := spec["externalIPs"].([]any); o.kind != "Service" || o.apiVersion != "v1" || len(list) == 0 {
			continue
		}
		problems = append(problems, problem{object: o, at: o.at("spec", "externalIPs"), message: "spec.externalIPs is set", minor: s.Minor})
	}
	return problems
}

// shareNamespaces finds Services whose list of namespaces with which they share an address gives no consent: it cannot be read.
func shareNamespaces(s *Set) []problem {
	var problems []problem
	for _, o := range s.objects {
		if o.kind != "Service" || o.apiVersion != "v1" {
			continue
		}
		metadata, _ := o.content["metadata"].(map[string]any)
		annotations, _ := metadata["annotations"].(map[string]any)
		list, _ := annotations[v1alpha1.ShareNamespacesAnnotation].(string)
		if _, err := v1alpha1.ParseShareNamespaces(list); err != nil {
			problems = append(problems, problem{
				object: o, at: o.at("metadata", "annotations", v1alpha1.ShareNamespacesAnnotation),
				message: "annotation " + v1alpha1.ShareNamespacesAnnotation + ": " + err.Error(),
			})
		}
	}
	return problems
}
