package kubeadm

import (
	"fmt"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/ccmadm/ccmadm/manifests/edit"
	"github.com/ccmadm/ccmadm/manifests/lint"
)

// KubeadmRules lists what Lint looks for.
func Rules() []lint.Rule {
	return []lint.Rule{
		{
			ID: "A1", Title: "Kubelet is not in external mode", Severity: lint.Error, Links: []string{"kubernetes/kubeadm#1021", "kubernetes/kubernetes#90984"},
			Why: "The machine registers without the taint, so the cloud-controller-manager never looks at it. kubeadm does not carry the flag from one machine to another.",
			Do:  "set nodeRegistration.kubeletExtraArgs cloud-provider=external in each InitConfiguration and JoinConfiguration",
		},
		{
			ID: "A4", Title: "Kubelet names a provider", Severity: lint.Error, Links: []string{"hetznercloud/hcloud-cloud-controller-manager#853"},
			Why: "Kubelets have no built-in providers any more, and refuse to start.",
			Do:  "set cloud-provider=external; the provider's name is for the cloud-controller-manager",
		},
		{
			ID: "A5", Title: "Kubelet flag is gone", Severity: lint.Error, Links: []string{"kubernetes/kubernetes#130161", "rancher/rke2#8928"},
			Why: "Kubelets from 1.34 on end with: unknown flag: --cloud-config.",
			Do:  "remove the argument",
		},
		{
			ID: "A6", Title: "API server flag is gone", Severity: lint.Error, Links: []string{"kubernetes/kubernetes#130162"},
			Why: "kube-apiserver from 1.33 on ends with: unknown flag, and the control plane is down.",
			Do:  "remove the argument",
		},
		{
			ID: "A7", Title: "kube-controller-manager is told of a cloud", Severity: lint.Error, Links: []string{"https://github.com/kubernetes/kubernetes/blob/v1.36.3/cmd/kube-controller-manager/app/options/options.go"},
			Why: "Since 1.31 it has no cloud controllers and one allocator: it ends when it is told of another provider or allocator.",
			Do:  "remove the argument",
		},
		{
			ID: "A18", Title: "kube-controller-manager argument has no effect", Severity: lint.Warning,
			Why: "Since 1.31 kube-controller-manager runs no cloud controllers, whatever it is told.",
			Do:  "remove the argument",
		},
		{
			ID: "A9", Title: "Names controllers that are gone", Severity: lint.Warning,
			Why: "kube-controller-manager skips its cloud controllers; a release that forgets their names refuses them.",
			Do:  "remove service, route and cloud-node-lifecycle from controllers",
		},
		{
			ID: "A13", Title: "Kubelet has no address of its own", Severity: lint.Warning, Links: []string{"kubernetes/kubernetes#121028", "kubernetes/kubernetes#125348"},
			Why: "In external mode a kubelet without node-ip publishes no address until the cloud-controller-manager does: logs, exec and pods that ask for status.hostIP fail until then.",
			Do:  "set kubeletExtraArgs node-ip to the machine's address, or to 0.0.0.0 (::) for that of the default route",
		},
		{
			ID: "A17", Title: "Arguments in the form of another version", Severity: lint.Error, Links: []string{"https://kubernetes.io/docs/reference/config-api/kubeadm-config.v1beta4/"},
			Why: "Extra arguments are a mapping in v1beta3 and a list of name and value in v1beta4. kubeadm refuses the other.",
			Do:  "run `kubeadm config migrate`, or write them as the apiVersion says",
		},
		{
			ID: "F5", Title: "No pod networks are allocated", Severity: lint.Warning, Links: []string{"kubernetes/kubernetes#105240"},
			Why: "With networking.podSubnet and allocate-node-cidrs=false nobody but the cloud-controller-manager can allocate, and without an allocator neither routes nor most CNIs work.",
			Do:  "let the cloud-controller-manager allocate, or remove allocate-node-cidrs",
		},
	}
}

// IsKubeadm tells whether a file is for kubeadm: it has a document of its kinds.
func IsKubeadm(data []byte) bool {
	docs, err := edit.Split("", string(data))
	if err != nil {
		return false
	}
	for _, d := range docs {
		if d.Parse() == nil && d.Root != nil && strings.HasPrefix(edit.Scalar(edit.Lookup(d.Root, "apiVersion")), group+"/") {
			return true
		}
	}
	return false
}

// linter collects findings about a file.
type linter struct {
	file     *File
	minor    int
	rules    map[string]lint.Rule
	findings []lint.Finding
}

// Lint returns the mistakes that block the bootstrap of a cluster in external cloud mode, for components of version
// 1.kubernetesMinor. It changes nothing; the findings' fixes do.
func (f *File) Lint(kubernetesMinor int) []lint.Finding {
	l := &linter{file: f, minor: kubernetesMinor, rules: map[string]lint.Rule{}}
	for _, r := range Rules() {
		l.rules[r.ID] = r
	}
	for _, role := range []Role{RoleInit, RoleJoin} {
		if f.document(role.kind()) != nil {
			l.kubelet(role)
		}
	}
	if f.document(clusterConfigKind) != nil {
		if f.document(RoleInit.kind()) == nil {
			l.add("A1", clusterConfigKind, nil, "no InitConfiguration says that the first kubelet is in external mode", l.external(RoleInit))
		}
		l.apiServer()
		l.controllerManager()
	}
	lint.Sort(l.findings)
	return l.findings
}

// add notes a finding at a node, or at the document of the kind.
func (l *linter) add(id, kind string, at *yaml.Node, message string, fix func() error) {
	d, r := l.file.document(kind), l.rules[id]
	if at == nil {
		at = d.Root
	}
	l.findings = append(l.findings, lint.Finding{
		Rule: id, Severity: r.Severity, File: l.file.name, Line: d.LineOf(at), Column: at.Column,
		Object: kind, Message: message, Do: r.Do, Fixable: fix != nil, Fix: fix,
	})
}

// external puts the role's kubelet into external mode, as kubeadm-config does.
func (l *linter) external(role Role) func() error {
	return func() error {
		d, _, err := l.file.ensure(role)
		if err != nil {
			return err
		}
		_, err = l.file.setKubeletArgs(role, d, KubeletFlags{})
		return err
	}
}

func (l *linter) kubelet(role Role) {
	kind, path := role.kind(), []string{"nodeRegistration", "kubeletExtraArgs"}
	l.shape(kind, path)
	external, address := false, false
	for _, a := range extraArgs(l.file.value(kind, path...)) {
		switch a.name {
		case "cloud-provider":
			external = true
			if a.value != "external" {
				l.add("A4", kind, a.key, fmt.Sprintf("cloud-provider is %q", a.value), nil)
			}
		case "node-ip":
			address = true
		}
	}
	if !external {
		l.add("A1", kind, l.file.value(kind, path...), "kubeletExtraArgs has no cloud-provider=external", l.external(role))
	}
	if !address {
		l.add("A13", kind, l.file.value(kind, path...), "kubeletExtraArgs has no node-ip", nil)
	}
	l.stale(role, kind, "A5", "nodeRegistration")
}

func (l *linter) apiServer() {
	l.shape(clusterConfigKind, []string{"apiServer", "extraArgs"})
	l.stale(RoleInit, clusterConfigKind, "A6", "apiServer")
}

func (l *linter) controllerManager() {
	path := []string{"controllerManager", "extraArgs"}
	l.shape(clusterConfigKind, path)
	l.stale(RoleInit, clusterConfigKind, "A18", "controllerManager")
	for _, a := range extraArgs(l.file.value(clusterConfigKind, path...)) {
		switch {
		case a.name == "cloud-provider" && a.value != "external" && a.value != "":
			l.add("A7", clusterConfigKind, a.key, fmt.Sprintf("cloud-provider is %q", a.value), nil)
		case a.name == "cidr-allocator-type" && a.value != "RangeAllocator":
			l.add("A7", clusterConfigKind, a.key, fmt.Sprintf("cidr-allocator-type is %q", a.value), nil)
		case a.name == "controllers" && namesCloudController(a.value):
			l.add("A9", clusterConfigKind, a.key, fmt.Sprintf("controllers is %q", a.value), nil)
		case a.name == "allocate-node-cidrs" && a.value == "false" && l.file.PodSubnet() != "":
			l.add("F5", clusterConfigKind, a.key, "allocate-node-cidrs=false, and there is a podSubnet", nil)
		}
	}
}

func namesCloudController(list string) bool {
	for name := range strings.SplitSeq(list, ",") {
		switch strings.TrimPrefix(name, "-") {
		case "service", "route", "cloud-node-lifecycle":
			return true
		}
	}
	return false
}

// stale reports the arguments that SetExternal would take away.
func (l *linter) stale(role Role, kind, id, component string) {
	d := l.file.document(kind)
	for _, s := range l.file.staleFlags(role, l.minor) {
		if s.kind != kind || s.component[0] != component {
			continue
		}
		for _, a := range extraArgs(l.file.value(kind, s.component...)) {
			external := kind != clusterConfigKind || component == "apiServer" || s.name != "cloud-provider" || a.value == "external" || a.value == ""
			if a.name == s.name && d.LineOf(a.key) == s.line && external {
				l.add(id, kind, a.key, fmt.Sprintf("%s %s: %s", strings.Join(s.component, "."), s.name, s.why), func() error { return l.file.drop(s) })
			}
		}
	}
}

// shape compares the form of extra arguments with the version.
func (l *linter) shape(kind string, path []string) {
	d, n := l.file.document(kind), l.file.value(kind, path...)
	want, name := yaml.SequenceNode, "a list of name and value"
	if d.apiVersion == v1beta3 {
		want, name = yaml.MappingNode, "a mapping"
	}
	if n != nil && !edit.IsNull(n) && n.Kind != want {
		l.add("A17", kind, n, fmt.Sprintf("%s is not %s, as %s has it", strings.Join(path, "."), name, d.apiVersion), nil)
	}
}
