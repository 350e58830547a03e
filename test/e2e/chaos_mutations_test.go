package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// mutation is a change that no list names, and how it is taken back.
type mutation struct {
	what, on, inject, undo string
	// names are words of which a finding about it has one: the object, the component, the file, or the machine.
	names []string
}

// mutate chooses one by the seed. An empty one: there was nothing to change.
func (c *chaos) mutate(t *testing.T, r *rand.Rand) mutation {
	t.Helper()
	m := c.nodes[r.IntN(len(c.nodes))]
	switch r.IntN(14) {
	case 0, 1, 2:
		return c.ofObject(t, r)
	case 3:
		return c.ofObjectGone(t, r)
	case 4:
		return ofObjectInTheWay(r, m)
	case 5:
		return c.ofFlag(t, r)
	case 6, 7:
		return c.ofFile(t, r, m)
	case 8:
		return c.ofCertificate(t, r, m)
	case 9:
		return ofRule(r, m)
	case 10:
		return c.ofKernel(t, r, m)
	case 11:
		return ofMachine(r, m)
	case 12:
		return c.ofKubeletSetting(t, r, m)
	}
	return ofProcess(r, m)
}

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// objectOf chooses an object of the cluster: those of kube-system, roles of the control plane, and what belongs to no namespace or
// to another one and that every cluster has.
func (c *chaos) objectOf(t *testing.T, r *rand.Rand) (arguments, name string) {
	t.Helper()
	const bound = "system:node-proxier|system:coredns|kubeadm:|ccmadm|system:node|system:kube-|system:controller|cloud|system:basic|system:discovery|bootstrap"
	kind := pick(r, []string{
		"daemonset", "daemonset", "deployment", "service", "configmap", "role", "rolebinding", "serviceaccount", "endpointslice", "secret",
		"clusterrole", "clusterrolebinding", "validatingadmissionpolicy", "validatingadmissionpolicybinding", "node", "priorityclass",
		"flowschema", "apiservice", "customresourcedefinition", "-n kube-public configmap", "-n kube-public role", "-n kube-public rolebinding",
		"-n default service", "-n default endpointslice", "-n default serviceaccount", "namespace",
	})
	arguments = kind
	switch kind {
	case "daemonset", "deployment", "service", "configmap", "role", "rolebinding", "serviceaccount", "endpointslice", "secret":
		arguments = "-n kube-system " + kind
	}
	list := strings.Fields(c.sh(t, "cp1", admin+"get "+arguments+" -o name | sort").out)
	if strings.HasPrefix(kind, "clusterrole") {
		list = strings.Fields(c.sh(t, "cp1", admin+"get "+kind+" -o name | grep -E '"+bound+"' | sort").out)
	}
	if len(list) == 0 {
		return "", ""
	}
	name = pick(r, list)
	namespace, _, is := strings.Cut(arguments, kind[strings.LastIndex(kind, " ")+1:])
	if is {
		arguments = namespace + name
	}
	return arguments, name
}

// namesOf are what a finding may call an object: its name, and for what binds or configures a component, the component.
func namesOf(object string) []string {
	_, name, _ := strings.Cut(object, "/")
	names := []string{name}
	for _, part := range []string{
		"kube-proxy", "coredns", "kube-dns", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "node-agent",
		"cloud-controller-manager", "bootstrap", "kubelet", "cluster-info", "etcd",
	} {
		if strings.Contains(name, strings.TrimPrefix(part, "kube-")) {
			names = append(names, part)
		}
	}
	if name == "kube-dns" || strings.HasPrefix(name, "kube-dns-") {
		names = append(names, "kube-dns", "coredns")
	}
	if strings.HasPrefix(name, "system:node-proxier") {
		names = append(names, "kube-proxy")
	}
	return names
}

// ofObject changes or removes one field of an object.
func (c *chaos) ofObject(t *testing.T, r *rand.Rand) mutation {
	t.Helper()
	arguments, name := c.objectOf(t, r)
	object := c.object(t, arguments)
	before, err := json.Marshal(object)
	if object == nil || err != nil {
		return mutation{}
	}
	what := change(r, object)
	after, err := json.Marshal(object)
	if err != nil || what == "" {
		return mutation{}
	}
	return mutation{
		what: arguments + ": " + what, on: "cp1", names: namesOf(name),
		inject: "cat > /root/before.json <<'END'\n" + string(before) + "\nEND\ncat > /root/after.json <<'END'\n" + string(after) + "\nEND\n" +
			"kubectl replace -f /root/after.json",
		undo: "kubectl replace -f /root/before.json || kubectl create -f /root/before.json || kubectl replace --force -f /root/before.json",
	}
}

// ofObjectGone deletes one. A namespace would take what is in it along, and a Node is a machine that has to join again.
func (c *chaos) ofObjectGone(t *testing.T, r *rand.Rand) mutation {
	t.Helper()
	arguments, name := c.objectOf(t, r)
	object := c.object(t, arguments)
	before, err := json.Marshal(object)
	if object == nil || err != nil || strings.HasPrefix(name, "namespace/") || strings.HasPrefix(name, "customresourcedefinition") {
		return mutation{}
	}
	return mutation{
		what: arguments + " deleted", on: "cp1", names: namesOf(name),
		inject: "cat > /root/before.json <<'END'\n" + string(before) + "\nEND\nkubectl delete " + arguments,
		undo:   "kubectl create -f /root/before.json || kubectl replace -f /root/before.json",
	}
}

// ofObjectInTheWay makes an object that keeps others from being made or from running.
func ofObjectInTheWay(r *rand.Rand, m string) mutation {
	namespace := pick(r, []string{"kube-system", "default"})
	resource := pick(r, []string{"pods", "nodes", "leases", "services", "endpointslices", "serviceaccounts", "tokenreviews", "configmaps"})
	group := map[string]string{"leases": "coordination.k8s.io", "endpointslices": "discovery.k8s.io", "tokenreviews": "authentication.k8s.io"}[resource]
	return pick(r, []mutation{
		{
			what: "ResourceQuota without pods in " + namespace, names: []string{"quota"},
			inject: "kubectl -n " + namespace + " create quota chaos --hard=pods=1", undo: "kubectl -n " + namespace + " delete quota chaos",
		},
		{
			what: "LimitRange with a small maximum in " + namespace, names: []string{"LimitRange", "limit"},
			inject: "kubectl -n " + namespace + ` create -f - <<END
{apiVersion: v1, kind: LimitRange, metadata: {name: chaos}, spec: {limits: [{type: Container, max: {memory: 1Mi}, default: {memory: 1Mi}}]}}
END`, undo: "kubectl -n " + namespace + " delete limitrange chaos",
		},
		{
			what: "webhook that does not answer, for " + resource, names: []string{"webhook"},
			inject: fmt.Sprintf(`kubectl create -f - <<END
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: chaos}, webhooks: [{name: chaos.example.com,
  sideEffects: None, admissionReviewVersions: [v1], timeoutSeconds: 2, clientConfig: {url: "https://127.0.0.1:9/"},
  rules: [{apiGroups: [%q], apiVersions: ["*"], resources: [%q], operations: ["*"]}]}]}
END`, group, resource), undo: "kubectl delete validatingwebhookconfiguration chaos",
		},
		{
			what: "policy that refuses, for " + resource, names: []string{"policy", "chaos"},
			inject: fmt.Sprintf(`kubectl create -f - <<END
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: chaos}, spec: {validations: [{expression: "false"}],
  matchConstraints: {resourceRules: [{apiGroups: [%q], apiVersions: ["*"], resources: [%q], operations: [CREATE, UPDATE]}]}}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: chaos}, spec: {policyName: chaos, validationActions: [Deny]}}
END`, group, resource), undo: "kubectl delete validatingadmissionpolicy,validatingadmissionpolicybinding chaos",
		},
		{
			what: "taint NoExecute on " + m, names: []string{m, "taint"},
			inject: "kubectl taint node " + m + " chaos=here:NoExecute", undo: "kubectl taint node " + m + " chaos-",
		},
		{
			what: "Pod Security restricted on " + namespace, names: []string{"security", namespace},
			inject: "kubectl label namespace " + namespace + " pod-security.kubernetes.io/enforce=restricted && kubectl -n kube-system delete pod -l k8s-app=kube-proxy --wait=false",
			undo:   "kubectl label namespace " + namespace + " pod-security.kubernetes.io/enforce-",
		},
		{
			what: "APIService without an answer", names: []string{"apiservice", "chaos"},
			inject: `kubectl create -f - <<END
{apiVersion: v1, kind: Service, metadata: {name: chaos, namespace: default}, spec: {ports: [{port: 443}]}}
---
{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1.chaos.example.com}, spec: {group: chaos.example.com, version: v1,
  groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true, service: {name: chaos, namespace: default}}}
END`, undo: "kubectl delete apiservice v1.chaos.example.com; kubectl -n default delete service chaos",
		},
	}).at("cp1")
}

func (m mutation) at(machine string) mutation {
	m.on = machine
	return m
}

// change alters one leaf below everything but apiVersion, kind, and the object's name, and says which.
func change(r *rand.Rand, object map[string]any) string {
	leaves := leavesOf(object)
	if len(leaves) == 0 {
		return ""
	}
	l := pick(r, leaves)
	if r.IntN(2) == 0 {
		l.set(nil, true)
		return l.path + " removed"
	}
	switch v := l.old.(type) {
	case bool:
		l.set(!v, false)
	case float64:
		l.set(pick(r, []float64{0, v + 1, v * 10}), false)
	case string:
		lines := strings.Split(v, "\n")
		if len(lines) > 2 { // a file in a ConfigMap loses a line
			at := r.IntN(len(lines))
			gone := strings.TrimSpace(lines[at])
			l.set(strings.Join(slices.Delete(lines, at, at+1), "\n"), false)
			return fmt.Sprintf("%s without its line %q", l.path, gone)
		}
		l.set(v+"x", false)
	default:
		return ""
	}
	return fmt.Sprintf("%s changed, it was %v", l.path, l.old)
}

type leaf struct {
	path string
	set  func(value any, remove bool)
	old  any
}

func leavesOf(object map[string]any) (leaves []leaf) {
	var walk func(path string, value any, set func(any, bool))
	walk = func(path string, value any, set func(any, bool)) {
		switch v := value.(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				if path == "" && (key == "apiVersion" || key == "kind") || path == ".metadata" && key != "labels" {
					continue
				}
				walk(path+"."+key, v[key], func(value any, remove bool) {
					if remove {
						delete(v, key)
						return
					}
					v[key] = value
				})
			}
		case []any:
			for i := range v {
				walk(fmt.Sprintf("%s[%d]", path, i), v[i], func(value any, remove bool) {
					if remove {
						set(slices.Delete(v, i, i+1), false)
						return
					}
					v[i] = value
				})
			}
		default:
			leaves = append(leaves, leaf{path, set, value})
		}
	}
	walk("", object, nil)
	return leaves
}
