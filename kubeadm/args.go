package kubeadm

import (
	"errors"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/ccmadm/ccmadm/manifests/edit"
)

// extraArg is one argument of a component, in either of kubeadm's shapes.
type extraArg struct {
	name  string
	value string
	index int        // of the entry in its mapping or sequence, -1 when it comes through a merge key
	key   *yaml.Node // where it stands
}

// extraArgs reads a mapping of v1beta3 or a list of v1beta4, in the order of the command line: the last of a name counts.
// Components take an underscore for a dash, so the names are returned with dashes.
func extraArgs(n *yaml.Node) []extraArg {
	n = edit.Resolve(n)
	if n == nil {
		return nil
	}
	var args []extraArg
	if n.Kind == yaml.MappingNode {
		args = mappedArgs(n)
	}
	if n.Kind == yaml.SequenceNode {
		for i, item := range n.Content {
			args = append(args, extraArg{name: edit.Scalar(edit.Lookup(item, "name")), value: edit.Scalar(edit.Lookup(item, "value")), index: i, key: item})
		}
	}
	for i := range args {
		args[i].name = normalizeFlag(args[i].name)
	}
	return args
}

// mappedArgs reads a mapping and what is merged into it. A key of the mapping itself, or of what is merged first, is in place of those
// of the rest.
func mappedArgs(n *yaml.Node) []extraArg {
	var args []extraArg
	seen := map[string]bool{}
	for _, m := range append([]*yaml.Node{n}, edit.Merged(n)...) {
		var own []extraArg
		for i := 0; i+1 < len(m.Content); i += 2 {
			key := m.Content[i]
			if key.ShortTag() == yaml.MergeTag || seen[key.Value] {
				continue
			}
			seen[key.Value] = true
			a := extraArg{name: edit.Scalar(key), value: edit.Scalar(m.Content[i+1]), index: -1, key: key}
			if m == n {
				a.index = i / 2
			}
			own = append(own, a)
		}
		args = append(own, args...)
	}
	return args
}

// lastArg is the index of the last argument of a name, for its removal. One that a merge key brings would come through again.
func lastArg(n *yaml.Node, name string) (int, error) {
	last := -1
	for _, a := range extraArgs(n) {
		if a.name == name {
			last = a.index
		}
	}
	merged := last < 0
	if n = edit.Resolve(n); n != nil && n.Kind == yaml.MappingNode {
		for _, m := range edit.Merged(n) {
			merged = merged || slices.ContainsFunc(extraArgs(m), func(a extraArg) bool { return a.name == name })
		}
	}
	if merged {
		return 0, errors.New("it is merged by a YAML merge key: write the arguments out, so that it can be removed")
	}
	return last, nil
}

// normalizeFlag follows k8s.io/component-base/cli/flag.WordSepNormalizeFunc.
func normalizeFlag(name string) string { return strings.ReplaceAll(name, "_", "-") }
