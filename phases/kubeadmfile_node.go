package phases

import (
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
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
	n = resolve(n)
	if n == nil {
		return nil
	}
	var args []extraArg
	if n.Kind == yaml.MappingNode {
		for _, m := range merged(n, 0) {
			for i := 0; i+1 < len(m.Content); i += 2 {
				args = append(args, extraArg{name: scalar(m.Content[i]), value: scalar(m.Content[i+1]), index: -1, key: m.Content[i]})
			}
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			args = append(args, extraArg{name: scalar(n.Content[i]), value: scalar(n.Content[i+1]), index: i / 2, key: n.Content[i]})
		}
	}
	if n.Kind == yaml.SequenceNode {
		for i, item := range n.Content {
			args = append(args, extraArg{name: scalar(lookup(item, "name")), value: scalar(lookup(item, "value")), index: i, key: item})
		}
	}
	for i := range args {
		args[i].name = normalizeFlag(args[i].name)
	}
	return args
}

// normalizeFlag follows k8s.io/component-base/cli/flag.WordSepNormalizeFunc.
func normalizeFlag(name string) string { return strings.ReplaceAll(name, "_", "-") }

// lookup returns the value of a key, of the mapping's own or else of what is merged into it.
func lookup(n *yaml.Node, key string) *yaml.Node {
	n = resolve(n)
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for _, m := range append([]*yaml.Node{n}, merged(n, 0)...) {
		if i := indexOf(m, key); i >= 0 {
			return m.Content[i+1]
		}
	}
	return nil
}

// merged lists the mappings that `<<` brings in, strongest first.
func merged(n *yaml.Node, depth int) []*yaml.Node {
	var all []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].ShortTag() != yaml.MergeTag || depth > 8 {
			continue
		}
		sources := []*yaml.Node{n.Content[i+1]}
		if list := resolve(n.Content[i+1]); list.Kind == yaml.SequenceNode {
			sources = list.Content
		}
		for _, s := range sources {
			if s = resolve(s); s.Kind == yaml.MappingNode {
				all = append(append(all, s), merged(s, depth+1)...)
			}
		}
	}
	return all
}

// indexOf returns the position of a key in a mapping's Content, or -1.
func indexOf(mapping *yaml.Node, key string) int {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if k := mapping.Content[i]; k.Kind == yaml.ScalarNode && k.Value == key {
			return i
		}
	}
	return -1
}

// resolve follows an alias.
func resolve(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// scalar returns the text of a scalar as kubeadm's decoder would: null is empty.
func scalar(n *yaml.Node) string {
	n = resolve(n)
	if n == nil || n.Kind != yaml.ScalarNode || isNull(n) {
		return ""
	}
	return n.Value
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == yaml.NodeTagNull }

func isFlow(n *yaml.Node) bool { return n.Style&yaml.FlowStyle != 0 }

// sameYAML compares what two trees mean, not how they are written.
func sameYAML(a, b *yaml.Node) bool {
	if a.Kind != b.Kind || a.ShortTag() != b.ShortTag() || a.Anchor != b.Anchor {
		return false
	}
	if a.Value != b.Value && !isNull(a) {
		return false
	}
	return slices.EqualFunc(a.Content, b.Content, sameYAML)
}

// sharedAnchor returns the first anchor on or below n that an alias in the document refers to, or the alias's name
// when n itself is one.
func sharedAnchor(root, n *yaml.Node, deep bool) string {
	if n.Kind == yaml.AliasNode {
		return n.Value
	}
	if n.Anchor != "" && hasAlias(root, n) {
		return n.Anchor
	}
	for _, child := range n.Content {
		if !deep {
			break
		}
		if child.Kind != yaml.AliasNode {
			if name := sharedAnchor(root, child, true); name != "" {
				return name
			}
		}
	}
	return ""
}

func hasAlias(n, target *yaml.Node) bool {
	if n.Kind == yaml.AliasNode {
		return n.Alias == target
	}
	return slices.ContainsFunc(n.Content, func(c *yaml.Node) bool { return hasAlias(c, target) })
}
