package callouts

import (
	"maps"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
)

// try is one request.
type try struct {
	// what says which, and path and body are it. Without a body it is an update that changes nothing; without an operation, a list.
	what, path string
	body       map[string]any
	op         admissionv1.OperationType
	// asked are the webhooks that the API server asks about it, as far as is known; converts is the conversion that it needs, with those that
	// the same port of a Service serves.
	asked    []*hook
	converts []*Callout
}

// kind is something that can be asked for in any namespace, such that nothing else than a webhook would have to refuse it.
type kind struct {
	group, version, resource, kind string
	// existing is one that each namespace has. Empty: there is none.
	existing string
	// content is what a new one has besides its metadata.
	content map[string]any
	// cluster says that it has no namespace.
	cluster bool
}

func (k *kind) path(namespace string) string {
	path := "/apis/" + k.group + "/" + k.version
	if k.group == "" {
		path = "/api/" + k.version
	}
	if !k.cluster {
		path += "/namespaces/" + namespace
	}
	return path + "/" + k.resource
}

// kinds are in the order in which they are preferred. A pod is the last: other rules than webhooks may refuse it, or take their time.
func kinds(node string) []kind {
	type object = map[string]any
	pod := object{
		"automountServiceAccountToken": false,
		"securityContext":              object{"runAsNonRoot": true, "runAsUser": 65534, "seccompProfile": object{"type": "RuntimeDefault"}},
		"containers": []any{object{
			"name": "pause", "image": "registry.k8s.io/pause:3.10", "securityContext": object{
				"allowPrivilegeEscalation": false, "capabilities": object{"drop": []any{"ALL"}},
			},
		}},
		"restartPolicy": "Never",
	}
	marked := object{"app": "ccmadm-doctor"}
	template := object{"metadata": object{"labels": marked}, "spec": pod}
	forever := maps.Clone(pod)
	delete(forever, "restartPolicy")
	list := []kind{
		{version: "v1", resource: "configmaps", kind: "ConfigMap", existing: "kube-root-ca.crt"},
		{version: "v1", resource: "serviceaccounts", kind: "ServiceAccount", existing: "default"},
		{group: "coordination.k8s.io", version: "v1", resource: "leases", kind: "Lease"},
		{version: "v1", resource: "services", kind: "Service", content: object{"spec": object{"ports": []any{object{"port": 80}}}}},
		{version: "v1", resource: "secrets", kind: "Secret"},
		{group: "apps", version: "v1", resource: "deployments", kind: "Deployment", content: object{"spec": object{
			"replicas": 0, "selector": object{"matchLabels": marked},
			"template": object{"metadata": object{"labels": marked}, "spec": forever},
		}}},
		{group: "batch", version: "v1", resource: "jobs", kind: "Job", content: object{"spec": object{"suspend": true, "template": template}}},
		{group: "networking.k8s.io", version: "v1", resource: "ingresses", kind: "Ingress", content: object{"spec": object{
			"defaultBackend": object{"service": object{"name": "ccmadm-doctor", "port": object{"number": 80}}},
		}}},
		{version: "v1", resource: "pods", kind: "Pod", content: object{"spec": pod}},
	}
	if node != "" {
		list = append(list, kind{version: "v1", resource: "nodes", kind: "Node", existing: node, cluster: true})
	}
	return list
}

// asks says that a rule of the webhook is about a request.
func (h *hook) asks(k *kind, op admissionv1.OperationType) bool {
	has := func(list []string, name string) bool {
		return slices.Contains(list, "*") || slices.Contains(list, name)
	}
	return slices.ContainsFunc(h.rules, func(r admissionv1.RuleWithOperations) bool {
		operation := slices.Contains(r.Operations, op) || slices.Contains(r.Operations, admissionv1.OperationAll)
		scope := r.Scope == nil || *r.Scope == admissionv1.AllScopes || (*r.Scope == admissionv1.ClusterScope) == k.cluster
		return operation && scope && has(r.APIGroups, k.group) && has(r.APIVersions, k.version) &&
			(has(r.Resources, k.resource) || slices.Contains(r.Resources, "*/*") || slices.Contains(r.Resources, k.resource+"/*"))
	})
}

// wants are labels of an object about which the webhook is asked; false: none were found.
func (h *hook) wants() (labels.Set, bool) {
	set := labels.Set{}
	requirements, _ := h.objects.Requirements()
	for _, r := range requirements {
		switch values := r.ValuesUnsorted(); r.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
			set[r.Key()] = slices.Min(values)
		case selection.Exists:
			set[r.Key()] = "x"
		}
	}
	return set, h.objects.Matches(set)
}

// tries are the requests that ask all callouts that can be asked, and how many callouts are left out, since there are too many. Of those
// about which a webhook is asked, the one about which the fewest others are: what does not answer can be told then.
func (c *Collector) tries(node string) (list []try, left int) {
	c.all()
	c.mu.Lock()
	defer c.mu.Unlock()
	known := map[string]bool{}
	for i := range c.hooks {
		h := &c.hooks[i]
		if !h.dry || c.namespaces == nil && selects(h.namespaces) || h.Service != "" && (h.Ready == 0 && h.Closed || h.Lacks != "") {
			continue
		}
		best := c.best(h, node)
		switch {
		case best == nil || known[best.key()]:
		case len(list) < mostTries:
			known[best.key()] = true
			list = append(list, *best)
		case !slices.ContainsFunc(list, func(t try) bool { return slices.Contains(t.asked, h) }):
			left++
		}
	}
	lists, others := c.lists(mostTries - len(list))
	return append(list, lists...), left + others
}

// lists are requests for objects that have to be converted: one for each port of a Service, and others of these while there is room, since
// a list without objects asks nothing.
func (c *Collector) lists(room int) (list []try, left int) {
	var first, more []try
	type place struct {
		service types.NamespacedName
		port    int32
	}
	served := map[place]int{} // the first of each
	for i := range c.conversions {
		called := &c.conversions[i]
		if called.path == "" || called.Ready == 0 || called.Lacks != "" {
			continue
		}
		t := try{what: "list of objects in a version that is not stored", path: called.path, converts: []*Callout{&called.Callout}}
		by := place{called.ServiceName(), called.Port}
		at, known := served[by]
		switch {
		case called.Service == "" || !known:
			served[by] = len(first)
			first = append(first, t)
		default:
			first[at].converts = append(first[at].converts, &called.Callout)
			more = append(more, t)
		}
	}
	for i, t := range slices.Concat(first, more) {
		switch {
		case len(list) < room:
			list = append(list, t)
		case i < len(first):
			left += len(t.converts)
		}
	}
	return list, left
}

// surely says that the API server asks the webhook, whatever its conditions are and, of an object that exists, its labels.
func (t *try) surely(h *hook) bool {
	return !h.conditional && (t.op == admissionv1.Create || h.objects.Empty())
}

func (t *try) key() string {
	labels, _ := t.body["metadata"].(map[string]any)
	return string(t.op) + t.path + mapText(labels)
}

func mapText(metadata map[string]any) string {
	set, _ := metadata["labels"].(labels.Set)
	return set.String()
}

// best is the request about which the webhook and the fewest others are asked. Nil: there is none, or one that may not be a dry run would
// be asked, too.
func (c *Collector) best(h *hook, node string) *try {
	var best *try
	set, possible := h.wants()
	for _, k := range kinds(node) {
		for _, op := range []admissionv1.OperationType{admissionv1.Create, admissionv1.Update} {
			made := op == admissionv1.Create
			if !h.asks(&k, op) || made && (k.cluster || !possible) || !made && (k.existing == "" || !h.objects.Empty()) {
				continue
			}
			for _, namespace := range c.candidates(h, k.cluster) {
				t := c.request(&k, op, namespace, set)
				if dry := !slices.ContainsFunc(t.asked, func(o *hook) bool { return !o.dry }); dry && (best == nil || len(t.asked) < len(best.asked)) {
					best = &t
				}
			}
		}
	}
	return best
}

// candidates are namespaces about whose objects the webhook is asked, a few of many.
func (c *Collector) candidates(h *hook, cluster bool) []string {
	const few = 3
	if cluster {
		return []string{""}
	}
	if h.Namespaces == nil {
		return []string{"default", "kube-public"}
	}
	return h.Namespaces[:min(few, len(h.Namespaces))]
}

func (c *Collector) request(k *kind, op admissionv1.OperationType, namespace string, set labels.Set) try {
	t := try{op: op, path: k.path(namespace), what: "new " + k.resource}
	if op == admissionv1.Create {
		t.body = map[string]any{"metadata": map[string]any{"generateName": "ccmadm-doctor-", "labels": set}}
		maps.Copy(t.body, k.content)
		t.body["kind"], t.body["apiVersion"] = k.kind, k.version
		if k.group != "" {
			t.body["apiVersion"] = k.group + "/" + k.version
		}
	} else {
		t.path += "/" + k.existing
		t.what = "update of " + k.resource
	}
	if namespace != "" {
		t.what += " in namespace " + namespace
	}
	for i := range c.hooks {
		h := &c.hooks[i]
		selected := k.cluster || h.Namespaces == nil || slices.Contains(h.Namespaces, namespace)
		if selected && h.asks(k, op) && (op != admissionv1.Create || h.objects.Matches(set)) {
			t.asked = append(t.asked, h)
		}
	}
	return t
}
