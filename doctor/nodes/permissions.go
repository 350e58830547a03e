package nodes

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// permission is one thing that the manager has to do.
type permission struct {
	verb, group, resource, subresource, namespace, name string
}

// String names it as an RBAC rule would.
func (p permission) String() string {
	text := p.verb + " " + p.resource
	if p.subresource != "" {
		text += "/" + p.subresource
	}
	if p.group != "" {
		text += "." + p.group
	}
	if p.namespace != "" {
		text += " in namespace " + p.namespace
	}
	return text
}

// id is the entry of the catalogue: that of the lint rule about the same permission, where there is one.
func (p permission) id() finding.ID {
	switch {
	case p.resource == "nodes" && p.subresource == "" && slices.Contains([]string{"get", "list", "watch"}, p.verb):
		return "D13"
	case p.resource == "nodes":
		return "D8"
	case p.resource == "services":
		return "D9"
	case p.resource == "events":
		return "D10"
	case p.resource == "leases":
		return "D6"
	case p.resource == "serviceaccounts":
		return "D7"
	case p.resource == "configmaps" && p.namespace == metav1.NamespaceSystem && p.name == "extension-apiserver-authentication":
		return "D5"
	}
	return finding.MissingPermission
}

// vital is what no cloud-controller-manager can initialize a node without.
func vital(l *leadership) []permission {
	const leases = "coordination.k8s.io"
	namespace := cmp.Or(l.namespace, v1alpha1.Namespace)
	return slices.DeleteFunc([]permission{
		{verb: "list", resource: "nodes"},
		{verb: "watch", resource: "nodes"},
		{verb: "create", group: leases, resource: "leases", namespace: namespace},
		{verb: "get", group: leases, resource: "leases", namespace: namespace, name: l.name},
		{verb: "update", group: leases, resource: "leases", namespace: namespace, name: l.name},
		{verb: "update", resource: "nodes"},
		{verb: "patch", resource: "nodes", subresource: "status"},
	}, func(p permission) bool { return !l.asks(p) })
}

// asks reports whether a manager uses the permission: one without leader election uses none for Leases.
func (l *leadership) asks(p permission) bool { return !l.unelected || p.resource != "leases" }

// needed is what is vital, and after that what a manager uses now and then.
func needed(l *leadership) []permission {
	return append(
		vital(l),
		permission{verb: "get", resource: "nodes"},
		permission{verb: "patch", resource: "nodes"},
		permission{verb: "create", resource: "events"},
		permission{verb: "patch", resource: "events"},
	)
}

// besides is what a manager uses beyond its Nodes: what one needs that serves load balancers, and one that asks the API
// server about who calls it.
func besides(balances, asks bool) []permission {
	var list []permission
	if balances {
		list = append(
			list,
			permission{verb: "list", resource: "services"},
			permission{verb: "watch", resource: "services"},
			permission{verb: "patch", resource: "services", subresource: "status"},
		)
	}
	if asks {
		list = append(list, permission{
			verb: "get", resource: "configmaps", namespace: metav1.NamespaceSystem, name: "extension-apiserver-authentication",
		})
	}
	return list
}

// user is whose permissions the API server is asked about.
type user struct {
	name   string
	groups []string
}

// userOf returns whose permissions a pod has. It is not known of a static pod that is none of ours.
func userOf(p *corev1.Pod) (user, bool) {
	if IsMirror(p) {
		for _, v := range p.Spec.Volumes {
			if v.HostPath != nil && strings.HasSuffix(v.HostPath.Path, "/cloud-controller-manager.conf") {
				return user{v1alpha1.StaticPodUser, []string{"system:authenticated"}}, true
			}
		}
		return user{}, false
	}
	if p.Spec.ServiceAccountName == "" {
		return user{}, false
	}
	return serviceAccount(p.Namespace, p.Spec.ServiceAccountName), true
}

func serviceAccount(namespace, name string) user {
	return user{
		"system:serviceaccount:" + namespace + ":" + name,
		[]string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
}

// refusal is a permission that a log says is missing. The user is empty where it does not say whose.
type refusal struct {
	who user
	permission
}

var (
	// forbidden is the API server's text, k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go; quotes are
	// escaped where a structured log has it as a value.
	forbidden = regexp.MustCompile(
		`(?:\\?"([^"\\]*)\\?" )?is forbidden: User \\?"([^"\\]+)\\?" cannot (\S+) resource \\?"([^"\\]+)\\?" ` +
			`in API group \\?"([^"\\]*)\\?"(?: in the namespace \\?"([^"\\]+)\\?")?`,
	)
	// lacking is what our own manager says while it waits.
	lacking = regexp.MustCompile(
		`"Waiting for the API server" missing="permission to (\S+) ([a-z]+)(?:/([a-z]+))?(?:\.([a-z0-9.-]+))?(?: in namespace ([a-z0-9-]+))?"`,
	)
	// granted is what it says when it waits no more.
	granted = regexp.MustCompile(`"API server answers and grants what is needed"`)
)

// refusedInLog lists what a log says was refused, without repetition.
func refusedInLog(lines []string) []refusal {
	var list []refusal
	for _, line := range lines {
		var r refusal
		if m := forbidden.FindStringSubmatch(line); m != nil {
			resource, subresource, _ := strings.Cut(m[4], "/")
			r = refusal{userNamed(m[2]), permission{m[3], m[5], resource, subresource, m[6], m[1]}}
		} else if m := lacking.FindStringSubmatch(line); m != nil {
			r = refusal{permission: permission{verb: m[1], resource: m[2], subresource: m[3], group: m[4], namespace: m[5]}}
		} else if granted.MatchString(line) {
			list = slices.DeleteFunc(list, func(r refusal) bool { return r.who.name == "" })
			continue
		} else {
			continue
		}
		same := func(o refusal) bool { return o.who.name == r.who.name && o.permission == r.permission }
		if !slices.ContainsFunc(list, same) {
			list = append(list, r)
		}
	}
	return list
}

// userNamed knows the groups of a ServiceAccount; of others, that they are authenticated.
func userNamed(name string) user {
	if rest, ok := strings.CutPrefix(name, "system:serviceaccount:"); ok {
		if namespace, account, ok := strings.Cut(rest, ":"); ok {
			return serviceAccount(namespace, account)
		}
	}
	return user{name, []string{"system:authenticated"}}
}
