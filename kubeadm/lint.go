package kubeadm

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/minors"
	"github.com/ccmadm/ccmadm/manifests/edit"
)

// Rules lists what Lint looks for, as the catalogue has it.
func Rules() []finding.Kind {
	var list []finding.Kind
	for _, id := range []finding.ID{
		"A1", "A4", "A5", "A6", "A7", "A18", "A9", "A13", "A17", "A19", obsoleteAPI, finding.PatchFile, "F5",
		finding.FlagGone, finding.GateGone, finding.GateLocked, finding.RuntimeEnds, finding.ProxyModeEnds,
	} {
		list = append(list, id.Kind())
	}
	return list
}

// Holds tells what a file has for Lint: documents of kubeadm or Cluster API, and others. What is no YAML has neither.
func Holds(data []byte) (configuration, other bool) {
	docs, err := edit.Split("", strings.TrimPrefix(string(data), byteOrderMark))
	if err != nil {
		return false, false
	}
	for _, d := range docs {
		if d.Parse() != nil || d.Root == nil {
			continue
		}
		switch group, _, _ := strings.Cut(edit.Scalar(edit.Lookup(d.Root, "apiVersion")), "/"); group {
		case kubeadmGroup, bootstrapGroup, controlPlaneGroup, "kubelet.config.k8s.io", "kubeproxy.config.k8s.io":
			configuration = true
		case "ccmadm.dev": // it belongs into kubeadm's file
		default:
			other = true
		}
	}
	return configuration, other
}

// inspection collects findings about a file.
type inspection struct {
	file     *File
	minor    int
	history  minors.History
	kinds    map[finding.ID]finding.Kind
	findings []finding.Finding
}

// Lint returns the mistakes that block the bootstrap of a cluster in external cloud mode, for components of version
// 1.kubernetesMinor. It changes nothing; the findings' fixes do.
func (f *File) Lint(kubernetesMinor int) []finding.Finding {
	l := &inspection{file: f, minor: kubernetesMinor, history: minors.Load(), kinds: map[finding.ID]finding.Kind{}}
	for _, k := range Rules() {
		l.kinds[k.ID] = k
	}
	for _, role := range []Role{RoleInit, RoleJoin} {
		if d := f.document(role.kind()); d != nil {
			l.kubelet(part{doc: d, kind: role.kind(), object: role.kind(), apiVersion: d.apiVersion, minor: l.minor})
		}
	}
	if d := f.document(clusterConfigKind); d != nil {
		p := part{doc: d, kind: clusterConfigKind, object: clusterConfigKind, apiVersion: d.apiVersion, minor: l.minor}
		if f.document(RoleInit.kind()) == nil {
			l.add("A1", p, nil, "no InitConfiguration says that the first kubelet is in external mode", l.external)
		}
		l.controlPlane(p)
	}
	for _, d := range f.docs {
		l.clusterAPI(d)
		if d.Root != nil {
			l.readable(d)
			l.componentConfiguration(d)
		}
	}
	finding.Sort(l.findings)
	return l.findings
}

// part is a configuration of kubeadm's: a document, or a field of one of Cluster API's.
type part struct {
	doc *document
	// base is where it is in the document.
	base []string
	// kind is kubeadm's, object what findings call it.
	kind, object string
	// apiVersion is the version of kubeadm that its form is of.
	apiVersion string
	minor      int
}

func (p part) path(path ...string) []string { return slices.Concat(p.base, path) }

// value follows the path through aliases and merge keys; nil when there is nothing.
func (p part) value(path ...string) *yaml.Node {
	n := p.doc.Root
	for _, key := range p.path(path...) {
		n = edit.Lookup(n, key)
	}
	return edit.Resolve(n)
}

// add notes a finding at a node, or at the document.
func (l *inspection) add(id finding.ID, p part, at *yaml.Node, message string, fix func() error) {
	l.put(finding.Finding{Kind: l.kinds[id], Message: message, Fix: fix}, p, at)
}

// put notes a finding with the place where it is.
func (l *inspection) put(f finding.Finding, p part, at *yaml.Node) {
	for n := len(p.base); at == nil && n > 0; n-- { // as near to it as there is something
		at = p.doc.At(p.base[:n])
	}
	if at == nil {
		at = p.doc.Root
	}
	f.File, f.Line, f.Column, f.Object = l.file.name, p.doc.LineOf(at), at.Column, p.object
	l.findings = append(l.findings, f)
}

// external makes the InitConfiguration that is missing, as kubeadm-config does.
func (l *inspection) external() error {
	d, _, err := l.file.ensure(RoleInit)
	if err != nil {
		return err
	}
	_, err = l.file.setKubeletArgs(RoleInit, d, KubeletFlags{})
	return err
}

func (l *inspection) kubelet(p part) {
	path := []string{"nodeRegistration", "kubeletExtraArgs"}
	l.shape(p, path)
	external, address := false, false
	for _, a := range extraArgs(p.value(path...)) {
		switch a.name {
		case "cloud-provider":
			external = true
			if a.value != "external" {
				l.add("A4", p, a.key, fmt.Sprintf("cloud-provider is %q", a.value), nil)
			}
		case "node-ip":
			address = true
		}
	}
	if !external {
		l.add("A1", p, p.value(path...), "kubeletExtraArgs has no cloud-provider=external", func() error {
			arg := []extraArg{{name: "cloud-provider", value: "external"}}
			return p.doc.Insert(argsNode(p.apiVersion, arg), p.path(path...)...)
		})
	}
	if !address {
		l.add("A13", p, p.value(path...), "kubeletExtraArgs has no node-ip", nil)
	}
	l.stale(p, "A5", "nodeRegistration")
	l.refused(p)
}

// controlPlane is about the arguments of a ClusterConfiguration.
func (l *inspection) controlPlane(p part) {
	l.shape(p, []string{"apiServer", "extraArgs"})
	l.stale(p, "A6", "apiServer")
	path := []string{"controllerManager", "extraArgs"}
	l.shape(p, path)
	l.stale(p, "A18", "controllerManager")
	l.refused(p)
	for _, a := range extraArgs(p.value(path...)) {
		if f, is := refusedValue(a.name, a.value, p.minor); is {
			l.put(f, p, a.key)
		}
		if a.name == "allocate-node-cidrs" && a.value == "false" && edit.Scalar(p.value("networking", "podSubnet")) != "" {
			l.add("F5", p, a.key, "allocate-node-cidrs=false, and there is a podSubnet", nil)
		}
	}
}

// refusedValue finds a value with which kube-controller-manager of a minor version, as 37, ends, though it knows the argument.
func refusedValue(name, value string, minor int) (f finding.Finding, is bool) {
	seen := fmt.Sprintf("%s is %q", name, value)
	switch name {
	case "cloud-provider":
		return finding.ID("A7").New("", seen), value != "external" && value != ""
	case "cidr-allocator-type":
		return finding.ID("A7").New("", seen), value != "RangeAllocator"
	case "controllers":
		return finding.ID("A9").Ahead(minor, "", seen), minors.NamesCloudController(value)
	}
	return f, false
}

// stale reports the arguments of a component that components of the version refuse or ignore.
func (l *inspection) stale(p part, id finding.ID, component string) {
	for _, flag := range cloudFlags(p.kind) {
		if flag.component[0] != component || p.minor < flag.since {
			continue
		}
		for _, a := range extraArgs(p.value(flag.component...)) {
			provider := p.kind == clusterConfigKind && component != "apiServer" && flag.name == "cloud-provider" &&
				a.value != "external" &&
				a.value != ""
			if a.name != flag.name || provider { // that is A7
				continue
			}
			message := fmt.Sprintf("%s %s: %s", strings.Join(flag.component, "."), flag.name, flag.why)
			if names := p.volumesOf(component, a.value); flag.name == "cloud-config" && len(names) > 0 {
				message += fmt.Sprintf("; its volume %s in %s.extraVolumes has no use then", strings.Join(names, ", "), component)
			}
			l.add(id, p, a.key, message, func() error { return p.drop(flag) })
		}
	}
}

// volumesOf names the extra volumes that a file is in.
func (p part) volumesOf(component, file string) []string {
	list := p.value(component, "extraVolumes")
	if list == nil || file == "" {
		return nil
	}
	var names []string
	for _, v := range list.Content {
		mount := strings.TrimSuffix(edit.Scalar(edit.Lookup(v, "mountPath")), "/")
		if mount != "" && (file == mount || strings.HasPrefix(file, mount+"/")) {
			names = append(names, edit.Scalar(edit.Lookup(v, "name")))
		}
	}
	return names
}

// drop removes the last argument of the name.
func (p part) drop(flag cloudFlag) error {
	last, err := lastArg(p.value(flag.component...), flag.name)
	if err != nil {
		return err
	}
	return p.doc.Remove(last, p.path(flag.component...)...)
}

// shape compares the form of extra arguments with the version.
func (l *inspection) shape(p part, path []string) {
	want, name := yaml.SequenceNode, "a list of name and value"
	if p.apiVersion == v1beta3 {
		want, name = yaml.MappingNode, "a mapping"
	}
	if n := p.value(path...); n != nil && !edit.IsNull(n) && n.Kind != want {
		version := edit.Scalar(edit.Lookup(p.doc.Root, "apiVersion"))
		l.add("A17", p, n, fmt.Sprintf("%s is not %s, as %s has it", strings.Join(path, "."), name, version), nil)
	}
}
