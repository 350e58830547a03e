package rehearsal

import (
	"errors"
	"net/http"
	"path"
	"slices"
	"strings"
)

// request is what a path of the API server names.
type request struct {
	group, namespace, resource, name, subresource string
}

var (
	errPath    = errors.New("the path is none of a resource")
	errUpgrade = errors.New("a rehearsal has no exec, attach, port-forward or proxy")
)

// parse reads a request's path. It refuses what it does not know: a path that the API server might read in another way,
// the verbs that old paths begin with, and subresources that do something when they are read.
func parse(r *http.Request) (request, error) {
	q := request{}
	switch {
	case r.Header.Get("Upgrade") != "" || r.Method == http.MethodConnect:
		return q, errUpgrade
	case r.URL.RawPath != "" || path.Clean(r.URL.Path) != r.URL.Path || !strings.HasPrefix(r.URL.Path, "/"):
		return q, errPath
	}
	parts := strings.Split(r.URL.Path[1:], "/")
	var rest []string
	switch {
	case general(parts):
		return q, nil
	case parts[0] == "api" && len(parts) > 2 && parts[1] == "v1":
		rest = parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		q.group, rest = parts[1], parts[3:]
	default:
		return q, errPath
	}
	if rest[0] == "namespaces" && len(rest) > 2 {
		q.namespace, rest = rest[1], rest[2:]
	}
	if len(rest) > 3 || rest[0] == "watch" || rest[0] == "proxy" {
		return q, errPath
	}
	rest = append(rest, "", "")
	q.resource, q.name, q.subresource = rest[0], rest[1], rest[2]
	if q.subresource != "" && q.subresource != "status" && q.subresource != "scale" {
		return q, errUpgrade
	}
	return q, nil
}

// general reports whether a path is one that tells about the API server: its version, health, groups and schemas.
func general(parts []string) bool {
	switch parts[0] {
	case "version", "healthz", "livez", "readyz":
		return len(parts) == 1
	case "openapi":
		return true
	case "api":
		return len(parts) <= 2
	case "apis":
		return len(parts) <= 3
	}
	return false
}

func (q request) isNodes() bool { return q.group == "" && q.resource == "nodes" }

// inMemory says that a rehearsal has its own of these: the cluster is to show neither its leader nor its Events.
func (q request) inMemory() bool {
	events := q.resource == "events" && (q.group == "" || q.group == "events.k8s.io")
	return events || q.group == "coordination.k8s.io" && q.resource == "leases"
}

// what names a request for people.
func (q request) what(verb string) string {
	text := verb + " " + strings.TrimSuffix(q.resource+"/"+q.subresource, "/")
	if q.group != "" {
		text += "." + q.group
	}
	if q.namespace != "" || q.name != "" {
		text += " " + strings.Trim(q.namespace+"/"+q.name, "/")
	}
	return text
}

// readable reports whether the program may read it. Secrets are for those whose profile names them: the identity behind
// the proxy is the user's, which can read all.
func (p *proxy) readable(q request) bool {
	if q.group != "" || q.resource != "secrets" {
		return true
	}
	for _, rule := range p.mayRead {
		names := len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, q.name)
		if names && slices.Contains(rule.APIGroups, "") && slices.Contains(rule.Resources, "secrets") &&
			(rule.Namespace == "" || rule.Namespace == q.namespace) {
			return true
		}
	}
	return false
}

// acceptJSON is an Accept header without the binary forms, which could not be changed on the way.
func acceptJSON(accept string) string {
	var list []string
	for kind := range strings.SplitSeq(accept, ",") {
		name, params, ok := strings.Cut(strings.TrimSpace(kind), ";")
		if ok && name != "" {
			list = append(list, "application/json;"+params)
		}
	}
	list = append(list, "application/json")
	return strings.Join(slices.Compact(list), ",")
}
