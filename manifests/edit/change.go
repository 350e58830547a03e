package edit

import (
	"errors"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// Remove cuts an entry out of the mapping or sequence at the path, and with its last entry what held it. Comments
// stay.
func (d *Document) Remove(index int, path ...string) error {
	container, err := d.editable(path)
	if err != nil {
		return err
	}
	for len(path) > 0 && entries(container) == 1 {
		key := path[len(path)-1]
		path = path[:len(path)-1]
		container = d.At(path)
		index = IndexOf(container, key) / 2
	}
	at, width := index, 1
	if container.Kind == yaml.MappingNode {
		at, width = 2*index, 2
	}
	first, value := container.Content[at], container.Content[at+width-1]
	if err := d.notShared(
		value,
		append(path, first.Value),
		value.Kind != yaml.AliasNode,
	); value.Kind != yaml.AliasNode &&
		err != nil {
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

// Set makes the scalar at the path say what value does, in the quotes that were there, or inserts it with its key.
func (d *Document) Set(value *yaml.Node, path ...string) error {
	if d.missing(path) {
		return d.Insert(MappingNode(path[len(path)-1], value), path[:len(path)-1]...)
	}
	old, err := d.editable(path)
	if err != nil {
		return err
	}
	at := d.offset(old)
	end := at + len(old.Value)
	quoted := old.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0
	if quoted {
		value.Style = old.Style
		end += 2
	}
	if old.Kind != yaml.ScalarNode || end > len(d.Text) || !quoted && d.Text[at:end] != old.Value {
		return ErrUneditable
	}
	text, err := d.encode(value)
	if err != nil {
		return err
	}
	if IsNull(old) && old.Value == "" && !d.isItem(path) {
		at = d.offset(d.key(path))
		at += strings.IndexByte(d.Text[at:], ':') + 1
		end, text = at, " "+text
	}
	old.Value, old.Tag, old.Style = value.Value, value.Tag, value.Style
	return d.replace(d.Text[:at] + strings.TrimSuffix(text, "\n") + d.Text[end:])
}

// replace takes the new text, if it means what the tree says: an edit that would hit anything else is refused, and
// the tree is again that of the text.
func (d *Document) replace(text string) error {
	edited := &Document{File: d.File, Separator: d.Separator, Text: text, Line: d.Line}
	if err := edited.Parse(); err != nil || edited.Root == nil || !same(edited.Root, d.Root) {
		return errors.Join(ErrUneditable, d.Parse())
	}
	*d = *edited
	return nil
}
