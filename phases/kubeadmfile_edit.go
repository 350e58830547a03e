package phases

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// errUneditable is an edit whose result would not mean what was intended.
var errUneditable = errors.New("cannot edit YAML that is written this way: give each key and value a line of its own")

// insert puts the entries of fragment, a mapping or a sequence, in front of those that stand at the path. What is
// missing on the way is made. An entry in front needs no knowledge of where the last one ends.
func (d *kubeadmDoc) insert(fragment *yaml.Node, path ...string) error {
	for len(path) > 0 && lookup(d.at(path[:len(path)-1]), path[len(path)-1]) == nil {
		fragment = mappingNode(path[len(path)-1], fragment)
		path = path[:len(path)-1]
	}
	container, err := d.editable(path)
	if err != nil {
		return err
	}
	var text string
	switch {
	case isNull(container):
		text, err = d.fillNull(path, container, fragment)
	case container.Kind != fragment.Kind:
		return fmt.Errorf("%s: want %s in %s", strings.Join(path, "."), shape(fragment), d.apiVersion)
	case isFlow(container):
		text, err = d.insertFlow(container, fragment)
	default:
		text, err = d.insertBlock(path, fragment)
	}
	if err != nil {
		return err
	}
	at := 0
	if len(path) == 0 && !isFlow(container) {
		at = d.afterHeader()
	}
	if isNull(container) {
		container.Kind, container.Tag, container.Value = fragment.Kind, "", ""
	}
	container.Content = slices.Insert(container.Content, at, fragment.Content...)
	return d.replace(text)
}

func shape(n *yaml.Node) string {
	if n.Kind == yaml.SequenceNode {
		return "a list of name and value"
	}
	return "a mapping"
}

// at follows the path through the mappings' own keys.
func (d *kubeadmDoc) at(path []string) *yaml.Node {
	n := d.root
	for _, key := range path {
		i := indexOf(n, key)
		if i < 0 {
			return nil
		}
		n = n.Content[i+1]
	}
	return n
}

// editable returns the node at the path, unless an edit there would be one of something else as well.
func (d *kubeadmDoc) editable(path []string) (*yaml.Node, error) {
	for i := 1; i <= len(path); i++ {
		n := d.at(path[:i])
		if n == nil {
			return nil, fmt.Errorf("%s comes through a YAML merge key: write it out, so that it can be changed", strings.Join(path[:i], "."))
		}
		if err := d.notShared(n, path[:i], false); err != nil {
			return nil, err
		}
	}
	return d.at(path), nil
}

func (d *kubeadmDoc) notShared(n *yaml.Node, path []string, deep bool) error {
	if name := sharedAnchor(d.root, n, deep); name != "" {
		return fmt.Errorf("%s shares the YAML anchor %q: write it out, so that it can be changed alone", strings.Join(path, "."), name)
	}
	return nil
}

// insertBlock writes the entries on lines of their own, below the key that holds them; at the root, below apiVersion
// and kind.
func (d *kubeadmDoc) insertBlock(path []string, fragment *yaml.Node) (string, error) {
	lines := strings.SplitAfter(d.text, "\n")
	if len(path) == 0 {
		after := d.root.Content[d.afterHeader()-1].Line
		return d.insertLines(lines, after, d.root.Content[0].Column-1, fragment)
	}
	key := d.key(path)
	return d.insertLines(lines, key.Line, indentBelow(lines, key.Line), fragment)
}

// insertLines writes the fragment below the first n lines.
func (d *kubeadmDoc) insertLines(lines []string, n, indent int, fragment *yaml.Node) (string, error) {
	text, err := d.encode(fragment)
	if err != nil {
		return "", err
	}
	above := slices.Clone(lines[:n])
	if !strings.HasSuffix(above[n-1], "\n") {
		above[n-1] += d.newline()
	}
	prefix := strings.Repeat(" ", indent)
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		above = append(above, prefix+line+d.newline())
	}
	return strings.Join(append(above, lines[n:]...), ""), nil
}

// insertFlow writes the entries behind the opening bracket, on a line of their own where the others are.
func (d *kubeadmDoc) insertFlow(container, fragment *yaml.Node) (string, error) {
	at := d.offset(container)
	open := strings.IndexAny(d.text[at:], "{[")
	if open < 0 {
		return "", errUneditable
	}
	at += open + 1
	text, err := d.encodeFlow(fragment)
	if err != nil {
		return "", err
	}
	text = text[1 : len(text)-1]
	if len(container.Content) > 0 {
		space := leadingSpace(d.text[at:])
		text += ","
		if strings.Contains(space, "\n") {
			text = space + text
		} else if space == "" {
			text += " "
		}
	}
	return d.text[:at] + text + d.text[at:], nil
}

// fillNull gives content to a key that has none, or an explicit null.
func (d *kubeadmDoc) fillNull(path []string, null, fragment *yaml.Node) (string, error) {
	parent, key := d.at(path[:len(path)-1]), d.key(path)
	text := d.text
	if null.Value != "" {
		at := d.offset(null)
		if isFlow(parent) {
			flow, err := d.encodeFlow(fragment)
			return text[:at] + flow + text[at+len(null.Value):], err
		}
		text = strings.TrimRight(text[:at], " ") + text[at+len(null.Value):]
	}
	if isFlow(parent) {
		return "", errUneditable
	}
	return d.insertLines(strings.SplitAfter(text, "\n"), key.Line, key.Column-1+d.indentStep(), fragment)
}

// key returns the key at the end of the path.
func (d *kubeadmDoc) key(path []string) *yaml.Node {
	parent := d.at(path[:len(path)-1])
	return parent.Content[indexOf(parent, path[len(path)-1])]
}

// afterHeader is the position in the root's Content behind apiVersion and kind.
func (d *kubeadmDoc) afterHeader() int {
	return max(indexOf(d.root, "apiVersion"), indexOf(d.root, "kind")) + 2
}

// remove cuts an entry out of the mapping or sequence at the path, and with its last entry what held it. Comments
// stay.
func (d *kubeadmDoc) remove(index int, path ...string) error {
	container, err := d.editable(path)
	if err != nil {
		return err
	}
	for len(path) > 0 && entries(container) == 1 {
		key := path[len(path)-1]
		path = path[:len(path)-1]
		container = d.at(path)
		index = indexOf(container, key) / 2
	}
	at, width := index, 1
	if container.Kind == yaml.MappingNode {
		at, width = 2*index, 2
	}
	first, value := container.Content[at], container.Content[at+width-1]
	if err := d.notShared(value, append(path, first.Value), value.Kind != yaml.AliasNode); value.Kind != yaml.AliasNode && err != nil {
		return err
	}
	var text string
	if isFlow(container) {
		text = d.cutFlow(first, value)
	} else {
		text = d.cutBlock(first, value, container.Kind)
	}
	container.Content = slices.Delete(container.Content, at, at+width)
	return d.replace(text)
}

func entries(n *yaml.Node) int {
	if n.Kind == yaml.MappingNode {
		return len(n.Content) / 2
	}
	return len(n.Content)
}

// replace takes the new text, if it means what the tree says: an edit that would hit anything else is refused.
func (d *kubeadmDoc) replace(text string) error {
	edited := &kubeadmDoc{file: d.file, separator: d.separator, text: text, line: d.line}
	if err := edited.parse(); err != nil || edited.root == nil || !sameYAML(edited.root, d.root) {
		return errUneditable
	}
	*d = *edited
	return nil
}
