package requests

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
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
		namespace, name, _ := strings.Cut(u.Service, "/")
		f.Next = "kubectl -n " + namespace + " get endpointslices -l kubernetes.io/service-name=" + name
		list = append(list, f)
	}
	return list
}

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
			some(lacks, 3), strings.Join(without, "; ")))
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

// next is what makes the role and its binding again.
func (d *Denial) next() string {
	switch d.Maker {
	case Server:
		return "on a control plane, so that the API server starts again and writes its default roles: " +
			"mv /etc/kubernetes/manifests/kube-apiserver.yaml /root/ && sleep 30 && mv /root/kube-apiserver.yaml /etc/kubernetes/manifests/"
	case Proxy:
		return "kubectl create clusterrolebinding kubeadm:node-proxier --clusterrole=system:node-proxier --serviceaccount=kube-system:kube-proxy " +
			"--dry-run=client -o yaml | kubectl auth reconcile -f -"
	case Admin:
		return "on a control plane: kubectl --kubeconfig /etc/kubernetes/super-admin.conf create clusterrolebinding kubeadm:cluster-admins " +
			"--clusterrole=cluster-admin --group=kubeadm:cluster-admins"
	case Tokens:
		return "on a control plane: kubeadm init phase bootstrap-token --skip-token-print"
	case DNS:
		return finding.AddonAgain("coredns")
	default:
		return "on a control plane: kubeadm init phase " + string(d.Maker) + " --config FILE, with the file that the cluster was made with"
	}
}

// refusers are the words of the API server, with what refuses: k8s.io/apiserver pkg/admission/plugin (webhook/errors, policy/validating,
// resourcequota) and k8s.io/pod-security-admission.
func refusers() []refuser {
	return []refuser{
		{regexp.MustCompile(`ValidatingAdmissionPolicy '([^']+)'`), "ValidatingAdmissionPolicy/", "kubectl get validatingadmissionpolicy %s -o yaml"},
		{regexp.MustCompile(`exceeded quota: ([a-z0-9.-]+)`), "ResourceQuota/kube-system/", "kubectl -n kube-system describe resourcequota %s"},
		{regexp.MustCompile(`webhook "([^"]+)"`), "Webhook/", "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations -o yaml | grep -B 30 'name: %s$'"},
		{regexp.MustCompile(`violates (PodSecurity) "`), "Namespace/kube-system", "kubectl get namespace kube-system --show-labels"},
		{regexp.MustCompile(`error looking up service account kube-system/([a-z0-9.-]+)`), "ServiceAccount/kube-system/", "kubectl -n kube-system create serviceaccount %s"},
		{regexp.MustCompile(`usage per (Container|Pod) is`), "LimitRange/kube-system", "kubectl -n kube-system describe limitrange"},
	}
}

// refuser is something that refuses, by its words.
type refuser struct {
	words  *regexp.Regexp
	object string
	next   string
}

// cause is the object that refuses, and what shows it.
func (r *Refusal) cause(known []refuser) (object, next string) {
	for _, k := range known {
		m := k.words.FindStringSubmatch(r.Message)
		if m == nil {
			continue
		}
		object, next = k.object, k.next
		if strings.HasSuffix(object, "/") {
			object += m[1]
		}
		if len(m) > 1 {
			next = strings.Replace(next, "%s", m[1], 1)
		}
		return object, next
	}
	return "Namespace/kube-system", "kubectl -n kube-system get events --field-selector type=Warning"
}

func refused(all []Refusal) []finding.Finding {
	var list []finding.Finding
	known, done := refusers(), map[string]bool{}
	for i := range all {
		object, next := all[i].cause(known)
		if done[object] {
			continue
		}
		done[object] = true
		var writes []string
		for _, other := range all[i:] {
			if of, _ := other.cause(known); of == object {
				writes = add(writes, other.Write)
			}
		}
		f := finding.WriteRefused.New(object, "refused: "+some(writes, 3)+". "+all[i].Message)
		f.Next = next
		list = append(list, f)
	}
	return list
}

// some names a few, and how many more there are.
func some(list []string, most int) string {
	if more := len(list) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), more)
	}
	return strings.Join(list, ", ")
}
