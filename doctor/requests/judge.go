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
	for _, binding := range distinct(all, func(d Denial) string { return d.Binding }) {
		of := slices.DeleteFunc(slices.Clone(all), func(d Denial) bool { return d.Binding != binding })
		lacks := distinct(of, func(d Denial) string { return d.Permission })
		without := distinct(of, func(d Denial) string { return d.Without })
		f := finding.ComponentForbidden.New(binding, fmt.Sprintf("%s (%s) is not allowed to %s: %s", of[0].Component, of[0].User,
			some(lacks, 3), strings.Join(without, "; ")))
		f.Next = of[0].next()
		list = append(list, f)
	}
	return list
}

// next is what makes the role and its binding again.
func (d *Denial) next() string {
	switch d.Maker {
	case Server:
		return "on a control plane, so that the API server writes its default roles: crictl stop $(crictl ps -q --name '^kube-apiserver$')"
	case Proxy:
		return "kubectl create clusterrolebinding kubeadm:node-proxier --clusterrole=system:node-proxier --serviceaccount=kube-system:kube-proxy " +
			"--dry-run=client -o yaml | kubectl auth reconcile -f -"
	case Admin:
		return "on a control plane: kubectl --kubeconfig /etc/kubernetes/super-admin.conf create clusterrolebinding kubeadm:cluster-admins " +
			"--clusterrole=cluster-admin --group=kubeadm:cluster-admins"
	case Tokens:
		return "on a control plane: kubeadm init phase bootstrap-token --skip-token-print"
	default:
		return "on a control plane: kubeadm init phase " + string(d.Maker)
	}
}

// refusers are the words of the API server, with what refuses: k8s.io/apiserver pkg/admission/plugin (webhook/errors, policy/validating,
// resourcequota) and k8s.io/pod-security-admission.
var refusers = []struct {
	words  *regexp.Regexp
	object string
	next   string
}{
	{regexp.MustCompile(`ValidatingAdmissionPolicy '([^']+)'`), "ValidatingAdmissionPolicy/", "kubectl get validatingadmissionpolicy %s -o yaml"},
	{regexp.MustCompile(`exceeded quota: ([a-z0-9.-]+)`), "ResourceQuota/" + system + "/", "kubectl -n " + system + " describe resourcequota %s"},
	{regexp.MustCompile(`webhook "([^"]+)"`), "Webhook/", "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations -o yaml | grep -B 30 'name: %s$'"},
	{regexp.MustCompile(`violates (PodSecurity) "`), "Namespace/" + system, "kubectl get namespace " + system + " --show-labels"},
	{regexp.MustCompile(`error looking up service account kube-system/([a-z0-9.-]+)`), "ServiceAccount/" + system + "/", "kubectl -n " + system + " create serviceaccount %s"},
	{regexp.MustCompile(`usage per (Container|Pod) is`), "LimitRange/" + system, "kubectl -n " + system + " describe limitrange"},
}

func refused(all []Refusal) []finding.Finding {
	type cause struct{ object, next string }
	of := func(r Refusal) cause {
		for _, refuser := range refusers {
			m := refuser.words.FindStringSubmatch(r.Message)
			if m == nil {
				continue
			}
			c := cause{refuser.object, refuser.next}
			if strings.HasSuffix(c.object, "/") {
				c.object += m[1]
			}
			if strings.Contains(c.next, "%s") {
				c.next = fmt.Sprintf(c.next, m[1])
			}
			return c
		}
		return cause{object: "Namespace/" + system, next: "kubectl -n " + system + " get events --field-selector type=Warning"}
	}
	var list []finding.Finding
	for _, c := range distinct(all, of) {
		same := slices.DeleteFunc(slices.Clone(all), func(r Refusal) bool { return of(r) != c })
		f := finding.WriteRefused.New(c.object, "refused: "+some(distinct(same, func(r Refusal) string { return r.Write }), 3)+". "+same[0].Message)
		f.Next = c.next
		list = append(list, f)
	}
	return list
}

// distinct keeps the order of the first ones.
func distinct[T any, K comparable](all []T, key func(T) K) []K {
	var keys []K
	for _, item := range all {
		if k := key(item); !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	return keys
}

// some names a few, and how many more there are.
func some(list []string, most int) string {
	if more := len(list) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), more)
	}
	return strings.Join(list, ", ")
}
