package kubeadm

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/minors"
	"github.com/ccmadm/ccmadm/manifests/edit"
)

// PatchedMinors are for which minor versions, as "1.37", patches are judged.
type PatchedMinors struct {
	// Kubeadm is that of the program that reads them: their names and their form.
	Kubeadm string
	// Components is that of what they change: arguments and feature gates.
	Components string
	// Runs reports whether a component of the cluster runs with an argument, or with a feature gate as feature-gates.NAME. What no known
	// minor has, and one runs with, is of a program that upstream has not built, and only a warning. Nil: there is no cluster yet.
	Runs func(component, name string) bool
}

// patchUses judges the arguments and feature gates that a patch gives a component.
type patchUses struct {
	PatchedMinors

	component string
	history   minors.History
	found     func(f finding.Finding, refusal minors.Refusal, name string, at *yaml.Node)
}

// lintPatchUses finds what ends the component of the target in a minor version. The patch has the form that kubeadm wants.
func lintPatchUses(file string, data []byte, target string, of PatchedMinors) []finding.Finding {
	docs, err := edit.Split(file, string(data))
	if err != nil {
		return nil
	}
	var list []finding.Finding
	for _, d := range docs {
		if d.Parse() != nil || d.Root == nil {
			continue
		}
		u := &patchUses{PatchedMinors: of, component: target, history: minors.Load()}
		u.found = func(f finding.Finding, refusal minors.Refusal, name string, at *yaml.Node) {
			if refusal == minors.Unknown && of.Runs != nil && of.Runs(u.component, name) {
				f.Severity = finding.SeverityWarning
			}
			f.File, f.Line, f.Column = file, d.LineOf(at), at.Column
			list = append(list, f)
		}
		for _, c := range patchChanges(d.Root) {
			switch target {
			case "kubeletconfiguration":
				u.component = "kubelet"
				u.configuration(c)
			case "kubeproxydaemonset":
				u.component = "kube-proxy"
				u.pod(c, "spec", "template", "spec")
			default:
				u.pod(c, "spec")
			}
		}
	}
	return list
}

// pod judges the arguments of the component's container in a pod's spec, and no other's.
func (u *patchUses) pod(c patchChange, spec ...string) {
	for _, list := range []string{"command", "args"} {
		way := slices.Concat(spec, []string{"containers", "*", list})
		for _, n := range c.at(u.component, way...) {
			if n = edit.Resolve(n); n == nil || n.Kind != yaml.SequenceNode {
				continue
			}
			args := n.Content
			switch i := slices.IndexFunc(args, func(a *yaml.Node) bool { return path.Base(edit.Scalar(a)) == u.component }); {
			case i >= 0: // what is before are arguments of a program that starts it
				args = args[i+1:]
			case len(args) > 0 && !strings.HasPrefix(edit.Scalar(args[0]), "-"):
				continue // of another program
			}
			for i, a := range args {
				u.argument(a, args[i+1:]...)
			}
		}
		if len(c.path) == len(way)+1 {
			for _, n := range c.at(u.component, append(way, "*")...) {
				u.argument(n)
			}
		}
	}
}

// argument judges one, whose value may be the next one.
func (u *patchUses) argument(n *yaml.Node, next ...*yaml.Node) {
	text, is := strings.CutPrefix(edit.Scalar(n), "--")
	name, value, has := strings.Cut(text, "=")
	if !has && len(next) > 0 {
		value = edit.Scalar(next[0])
	}
	if name = normalizeFlag(name); !is || name == "" {
		return
	}
	if name == "feature-gates" {
		for gate, value := range minors.Gates(value) {
			u.gate(n, gate, value)
		}
		return
	}
	if refusal, why := u.history.Flag(u.component, name, u.Components); why != "" {
		u.found(finding.FlagGone.New("", why), refusal, name, n)
	} else if u.component == "kube-controller-manager" && value != "" { // which another operation may add
		minor, _ := strconv.Atoi(strings.TrimPrefix(u.Components, "1."))
		if f, is := refusedValue(name, value, minor); is {
			u.found(f, refusal, name, n)
		}
	}
}

// configuration judges the feature gates of a component's configuration.
func (u *patchUses) configuration(c patchChange) {
	for _, n := range c.at("", "featureGates") {
		for _, g := range extraArgs(n) {
			u.gate(g.key, g.name, g.value)
		}
	}
	if len(c.path) == 2 {
		for _, n := range c.at("", "featureGates", "*") {
			u.gate(n, c.path[1], edit.Scalar(n))
		}
	}
}

// gate judges one. Without a value a patch takes it away.
func (u *patchUses) gate(at *yaml.Node, gate, value string) {
	if gate == "" || value == "" || strings.HasPrefix(gate, "$") { // a directive of a strategic merge
		return
	}
	switch refusal, why := u.history.Gate(u.component, gate, value, u.Components); refusal {
	case minors.Removed, minors.Unknown:
		u.found(finding.GateGone.New("", why), refusal, "feature-gates."+gate, at)
	case minors.Locked:
		u.found(finding.GateLocked.New("", why), refusal, "feature-gates."+gate, at)
	case minors.Accepted:
	}
}

// patchChange is a value, and the path to where a patch puts it.
type patchChange struct {
	path  []string
	value *yaml.Node
}

// patchChanges are those of the operations that put something somewhere. A patch that is a mapping is one at the top.
func patchChanges(root *yaml.Node) []patchChange {
	if root.Kind == yaml.MappingNode {
		return []patchChange{{value: root}}
	}
	var list []patchChange
	for _, op := range root.Content {
		value := edit.Lookup(op, "value")
		if value == nil || !slices.Contains([]string{"add", "replace"}, edit.Scalar(edit.Lookup(op, "op"))) {
			continue
		}
		c := patchChange{value: value}
		if pointer := edit.Scalar(edit.Lookup(op, "path")); pointer != "" {
			c.path = strings.Split(strings.TrimPrefix(pointer, "/"), "/")
		}
		list = append(list, c)
	}
	return list
}

// at lists what the change puts at a way from the top; * is each item of a list. Of items with a name, and of those that
// the path leads through, only those of the component count: its container is the first.
func (c patchChange) at(component string, way ...string) []*yaml.Node {
	if len(c.path) > len(way) {
		return nil
	}
	for i, key := range c.path {
		through := way[i] == "*" && i+1 < len(c.path)
		if way[i] != "*" && way[i] != key || through && key != "0" {
			return nil
		}
	}
	found := []*yaml.Node{c.value}
	if len(c.path) > 0 && way[len(c.path)-1] == "*" {
		found = itemsOf(component, found)
	}
	for _, key := range way[len(c.path):] {
		var next []*yaml.Node
		for _, n := range found {
			switch n = edit.Resolve(n); {
			case key != "*":
				next = append(next, edit.Lookup(n, key))
			case n != nil && n.Kind == yaml.SequenceNode:
				next = append(next, itemsOf(component, n.Content)...)
			}
		}
		found = next
	}
	return slices.DeleteFunc(found, func(n *yaml.Node) bool { return n == nil })
}

// itemsOf are the items that have no name, or the component's.
func itemsOf(component string, items []*yaml.Node) []*yaml.Node {
	return slices.DeleteFunc(slices.Clone(items), func(n *yaml.Node) bool {
		name := edit.Scalar(edit.Lookup(n, "name"))
		return name != "" && name != component
	})
}
