package requests

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/nodes"
)

// Judge finds what is wrong from what the API server would not serve. One finding for each binding and each refusing object, however
// many requests it costs.
func Judge(seen *Seen) []finding.Finding {
	if seen == nil {
		return nil
	}
	list := append(denied(seen.Denied), refused(seen.Refused)...)
	for _, u := range seen.Unavailable {
		f := finding.ExtensionDown.New("APIService/"+u.Name, "Service "+u.Service+" serves it. "+u.Message)
		if m := serviceName.FindStringSubmatch(u.Service); m != nil {
			f.Next = "kubectl -n " + m[1] + " get endpointslices -l kubernetes.io/service-name=" + m[2]
		}
		list = append(list, f)
	}
	return list
}

// serviceName is NAMESPACE/NAME. A snapshot may have been written by anyone, and this becomes part of a command.
var serviceName = regexp.MustCompile(`^([a-z0-9-]+)/([a-z0-9.-]+)$`)

func denied(all []Denial) []finding.Finding {
	var list []finding.Finding
	done := map[string]bool{}
	for i := range all {
		d := &all[i]
		if done[d.Binding] {
			continue
		}
		done[d.Binding] = true
		var lacks, without []string
		for _, other := range all[i:] {
			if other.Binding == d.Binding {
				lacks, without = add(lacks, other.Permission), add(without, other.Without)
			}
		}
		f := finding.ComponentForbidden.New(d.Binding, fmt.Sprintf("%s (%s) is not allowed to %s: %s", d.Component, d.User,
			nodes.Some(lacks, 3), strings.Join(without, "; ")))
		f.Next = d.next()
		list = append(list, f)
	}
	return list
}

// add keeps a text once.
func add(list []string, text string) []string {
	if slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}

// next restores the binding where it is missing, and else the role. It is made of the table alone.
func (d *Denial) next() string {
	grants := Permissions()
	i := slices.IndexFunc(grants, func(g Grant) bool { return g.binding() == d.Binding })
	if i < 0 {
		return ""
	}
	g := &grants[i]
	kind, name, _ := strings.Cut(g.binding(), "/")
	create, role, flag := "clusterrole", g.Role, "--clusterrole="
	in := ""
	if kind == "RoleBinding" {
		namespace, inside, _ := strings.Cut(name, "/")
		create, name, flag, in = "role", inside, "--role=", " -n "+namespace
	}
	if role == "" {
		role = name
	}
	const reconcile = " --dry-run=client -o yaml | kubectl auth reconcile -f -"
	switch {
	case !d.Bound:
		subject := "--user=" + g.user()
		if g.Group != "" {
			subject = "--group=" + g.Group
		} else if g.User == "" {
			subject = "--serviceaccount=kube-system:" + g.Component
		}
		return "kubectl create " + create + "binding " + name + in + " " + flag + role + " " + subject + reconcile
	case g.Kubeadm && !strings.HasPrefix(role, "system:") || role == "system:coredns":
		return "kubectl create " + create + " " + role + in + rule(g.Permissions) + reconcile
	}
	return "set annotation rbac.authorization.kubernetes.io/autoupdate of " + create + " " + role + " and of its binding to true, then start kube-apiserver " +
		"on a control plane again: it writes its default roles"
}

// rule has flags of kubectl for permissions that have the same verbs for all resources.
func rule(permissions []string) string {
	var verbs, resources []string
	name := ""
	for _, text := range permissions {
		a := parse(text)
		resource := a.Resource
		if a.Group != "" {
			resource += "." + a.Group
		}
		if a.Subresource != "" {
			resource += "/" + a.Subresource
		}
		verbs, resources, name = add(verbs, a.Verb), add(resources, resource), a.Name
	}
	flags := " --verb=" + strings.Join(verbs, ",") + " --resource=" + strings.Join(resources, ",")
	if name != "" {
		flags += " --resource-name=" + name
	}
	return flags
}

// refusers are the words of the API server, with what refuses: k8s.io/apiserver pkg/admission/plugin (webhook/errors, policy/validating,
// resourcequota), k8s.io/pod-security-admission, and kubernetes plugin/pkg/admission/priority.
func refusers() []refuser {
	return []refuser{
		{regexp.MustCompile(`^(?:failed calling |admission )?webhook "([a-z0-9.-]+)"`), "Webhook/NAME", "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations -o yaml | grep -B 30 'name: NAME$'"},
		{regexp.MustCompile(`^(?:\S+ \S+ is (?:forbidden|invalid): )?ValidatingAdmissionPolicy '([a-z0-9.-]+)'`), "ValidatingAdmissionPolicy/NAME", "kubectl get validatingadmissionpolicy NAME -o yaml"},
		{regexp.MustCompile(`(?:exceeded quota|failed quota|status unknown for quota): ([a-z0-9.-]+)`), "ResourceQuota/NAMESPACE/NAME", "kubectl -n NAMESPACE describe resourcequota NAME"},
		{regexp.MustCompile(`violates (PodSecurity) "`), "Namespace/NAMESPACE", "kubectl label namespace NAMESPACE --overwrite pod-security.kubernetes.io/enforce=privileged"},
		{regexp.MustCompile(`error looking up service account [a-z0-9-]+/([a-z0-9.-]+)`), "ServiceAccount/NAMESPACE/NAME", "kubectl -n NAMESPACE create serviceaccount NAME"},
		{regexp.MustCompile(`usage per (Container|Pod) is`), "LimitRange/NAMESPACE", "kubectl -n NAMESPACE describe limitrange"},
		{regexp.MustCompile(`no PriorityClass with name ([a-z0-9.-]+) was found`), "PriorityClass/NAME", "kubectl get priorityclasses"},
	}
}

// refuser is something that refuses, by its words.
type refuser struct {
	words  *regexp.Regexp
	object string
	next   string
}

// before is what stands in front of an answer of the API server: in Events of controllers, and where it is an error of its own.
var before = regexp.MustCompile(`^(?:Error creating: )?(?:Internal error occurred: )?`)

// Refuser is the object that refuses a write in a namespace, by the API server's words, and what shows it or lets the write through. Both
// are empty where the words are others.
func Refuser(namespace, message string) (object, next string) {
	message = before.ReplaceAllString(message, "")
	for _, k := range refusers() {
		if m := k.words.FindStringSubmatch(message); m != nil {
			named := strings.NewReplacer("NAMESPACE", namespace, "NAME", m[1])
			return named.Replace(k.object), named.Replace(k.next)
		}
	}
	return "", ""
}

// RefuserOrNamespace is the same. Where the words are others, it is the namespace, and what shows its warnings.
func RefuserOrNamespace(namespace, message string) (object, next string) {
	if object, next = Refuser(namespace, message); object == "" {
		return "Namespace/" + namespace, "kubectl -n " + namespace + " get events --field-selector type=Warning"
	}
	return object, next
}

func refused(all []Refusal) []finding.Finding {
	var list []finding.Finding
	done := map[string]bool{}
	for i := range all {
		object, next := RefuserOrNamespace(metav1.NamespaceSystem, all[i].Message)
		if done[object] {
			continue
		}
		done[object] = true
		var writes []string
		for _, other := range all[i:] {
			if of, _ := RefuserOrNamespace(metav1.NamespaceSystem, other.Message); of == object {
				writes = add(writes, other.Write)
			}
		}
		f := finding.WriteRefused.New(object, "refused: "+nodes.Some(writes, 3)+". "+all[i].Message)
		f.Next = next
		list = append(list, f)
	}
	return list
}
