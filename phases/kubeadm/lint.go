package kubeadm

import (
	"fmt"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/manifests/edit"
)

// Rules lists what Lint looks for, as the catalogue has it.
func Rules() []finding.Kind {
	var list []finding.Kind
	for _, id := range []finding.ID{"A1", "A4", "A5", "A6", "A7", "A18", "A9", "A13", "A17", "F5"} {
		list = append(list, id.Kind())
	}
	return list
}

// IsKubeadm tells whether a file is for kubeadm: it has a document of its kinds.
func IsKubeadm(data []byte) bool {
	docs, err := edit.Split("", string(data))
	if err != nil {
		return false
	}
	for _, d := range docs {
		if d.Parse() == nil && d.Root != nil && strings.HasPrefix(edit.Scalar(edit.Lookup(d.Root, "apiVersion")), kubeadmGroup+"/") {
			return true
		}
	}
	return false
}

// linter collects findings about a file.
type linter struct {
	file     *File
	minor    int
	rules    map[finding.ID]finding.Kind
	findings []finding.Finding
}

// Lint returns the mistakes that block the bootstrap of a cluster in external cloud mode, for components of version
// 1.kubernetesMinor. It changes nothing; the findings' fixes do.
func (f *File) Lint(kubernetesMinor int) []finding.Finding {
	l := &linter{file: f, minor: kubernetesMinor, rules: map[finding.ID]finding.Kind{}}
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
	finding.Sort(l.findings)
	return l.findings
}

// add notes a finding at a node, or at the document of the kind.
func (l *linter) add(id finding.ID, kind string, at *yaml.Node, message string, fix func() error) {
	d, r := l.file.document(kind), l.rules[id]
	if at == nil {
		at = d.Root
	}
	l.findings = append(l.findings, finding.Finding{
		Kind: r, File: l.file.name, Line: d.LineOf(at), Column: at.Column,
		Object: kind, Message: message, Fix: fix,
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
func (l *linter) stale(role Role, kind string, id finding.ID, component string) {
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
