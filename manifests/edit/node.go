package edit

import (
	"slices"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// Lookup returns the value of a key, of the mapping's own or else of what is merged into it.
func Lookup(n *yaml.Node, key string) *yaml.Node {
	n = Resolve(n)
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for _, m := range append([]*yaml.Node{n}, Merged(n)...) {
		if i := IndexOf(m, key); i >= 0 {
			return m.Content[i+1]
		}
	}
	return nil
}

// Merged lists the mappings that `<<` brings in, strongest first.
func Merged(n *yaml.Node) []*yaml.Node { return merged(n, 0) }

func merged(n *yaml.Node, depth int) []*yaml.Node {
	var all []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].ShortTag() != yaml.MergeTag || depth > 8 {
			continue
		}
		sources := []*yaml.Node{n.Content[i+1]}
		if list := Resolve(n.Content[i+1]); list.Kind == yaml.SequenceNode {
			sources = list.Content
		}
		for _, s := range sources {
			if s = Resolve(s); s.Kind == yaml.MappingNode {
				all = append(append(all, s), merged(s, depth+1)...)
			}
		}
	}
	return all
}

// IndexOf returns the position of a key in a mapping's Content, or -1.
func IndexOf(mapping *yaml.Node, key string) int {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if k := mapping.Content[i]; k.Kind == yaml.ScalarNode && k.Value == key {
			return i
		}
	}
	return -1
}

// Resolve follows an alias.
func Resolve(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// Scalar returns the text of a scalar as Kubernetes' decoders do: null is empty.
func Scalar(n *yaml.Node) string {
	n = Resolve(n)
	if n == nil || n.Kind != yaml.ScalarNode || IsNull(n) {
		return ""
	}
	return n.Value
}

// IsNull reports whether the value is null, written out or left out.
func IsNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == yaml.NodeTagNull }

func isFlow(n *yaml.Node) bool { return n.Style&yaml.FlowStyle != 0 }

// same compares what two trees mean, not how they are written.
func same(a, b *yaml.Node) bool {
	if a.Kind != b.Kind || a.ShortTag() != b.ShortTag() || a.Anchor != b.Anchor {
		return false
	}
	if a.Value != b.Value && !IsNull(a) {
		return false
	}
	return slices.EqualFunc(a.Content, b.Content, same)
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
