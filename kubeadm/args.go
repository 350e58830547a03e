package kubeadm

import (
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

// extraArgs reads a mapping of v1beta3 or a list of v1beta4. Components take an underscore for a dash, so the names
// are returned with dashes.
func extraArgs(n *yaml.Node) []extraArg {
	n = edit.Resolve(n)
	if n == nil {
		return nil
	}
	var args []extraArg
	if n.Kind == yaml.MappingNode {
		for _, m := range edit.Merged(n) {
			for i := 0; i+1 < len(m.Content); i += 2 {
				args = append(args, extraArg{name: edit.Scalar(m.Content[i]), value: edit.Scalar(m.Content[i+1]), index: -1, key: m.Content[i]})
			}
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			args = append(args, extraArg{name: edit.Scalar(n.Content[i]), value: edit.Scalar(n.Content[i+1]), index: i / 2, key: n.Content[i]})
		}
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

// normalizeFlag follows k8s.io/component-base/cli/flag.WordSepNormalizeFunc.
func normalizeFlag(name string) string { return strings.ReplaceAll(name, "_", "-") }
