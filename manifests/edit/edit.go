package edit

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// ErrUneditable is an edit whose result would not mean what was intended.
var ErrUneditable = errors.New("cannot edit YAML that is written this way: give each key and value a line of its own")

// Insert puts the entries of fragment, a mapping or a sequence, in front of those that stand at the path; in a mapping
// that has apiVersion and kind, or is itself an item of a list, behind what leads it. What is missing on the way is
// made. A path has keys of mappings, and numbers for the items of lists.
func (d *Document) Insert(fragment *yaml.Node, path ...string) error {
	for len(path) > 0 && d.missing(path) {
		fragment = MappingNode(path[len(path)-1], fragment)
		path = path[:len(path)-1]
	}
	container, err := d.editable(path)
	if err != nil {
		return err
	}
	var text string
	switch {
	case IsNull(container):
		text, err = d.fillNull(path, container, fragment)
	case container.Kind != fragment.Kind:
		return &ShapeError{Path: path, Want: fragment.Kind}
	case isFlow(container):
		text, err = d.insertFlow(container, fragment)
	default:
		text, err = d.insertBlock(path, fragment)
	}
	if err != nil {
		return err
	}
	at := 0
	if !isFlow(container) && !IsNull(container) {
		at = d.lead(path)
	}
	if IsNull(container) {
		container.Kind, container.Tag, container.Value = fragment.Kind, "", ""
	}
	container.Content = slices.Insert(container.Content, at, fragment.Content...)
	return d.replace(text)
}

// ShapeError is an edit of a list where there is a mapping, or the other way round.
type ShapeError struct {
	// Path is where.
	Path []string
	// Want is what the edit would need there.
	Want yaml.Kind
}

func (e *ShapeError) Error() string {
	want := "a mapping"
	if e.Want == yaml.SequenceNode {
		want = "a list"
	}
	return fmt.Sprintf("%s: want %s", strings.Join(e.Path, "."), want)
}

// At follows the path through the mappings' own keys and the lists' items.
func (d *Document) At(path []string) *yaml.Node {
	n := d.Root
	for _, key := range path {
		i := -1
		if n.Kind == yaml.SequenceNode {
			i = itemIndex(n, key)
		} else if k := IndexOf(n, key); k >= 0 {
			i = k + 1
		}
		if i < 0 {
			return nil
		}
		n = n.Content[i]
	}
	return n
}

// itemIndex reads a number as a list's item, or returns -1.
func itemIndex(list *yaml.Node, number string) int {
	if i, err := strconv.Atoi(number); err == nil && i < len(list.Content) {
		return i
	}
	return -1
}

// missing tells whether a mapping lacks the path's last key, of its own and merged into it.
func (d *Document) missing(path []string) bool {
	parent, last := d.At(path[:len(path)-1]), path[len(path)-1]
	if parent != nil && parent.Kind == yaml.SequenceNode {
		return itemIndex(parent, last) < 0
	}
	return Lookup(parent, last) == nil
}

// isItem tells whether the path ends with an item of a list.
func (d *Document) isItem(path []string) bool {
	return len(path) > 0 && d.At(path[:len(path)-1]).Kind == yaml.SequenceNode
}

// lead is the position in the Content of a block collection that new entries get.
func (d *Document) lead(path []string) int {
	switch {
	case len(path) == 0:
		return d.afterHeader()
	case d.isItem(path):
		return 2 // the first stands on the line of the dash
	}
	return 0
}

// editable returns the node at the path, unless an edit there would be one of something else as well.
func (d *Document) editable(path []string) (*yaml.Node, error) {
	for i := 1; i <= len(path); i++ {
		n := d.At(path[:i])
		if n == nil {
			return nil, fmt.Errorf(
				"%s is set by a YAML merge key: write it out, so that it can be changed",
				strings.Join(path[:i], "."),
			)
		}
		if err := d.notShared(n, path[:i], false); err != nil {
			return nil, err
		}
	}
	return d.At(path), nil
}

func (d *Document) notShared(n *yaml.Node, path []string, deep bool) error {
	if name := sharedAnchor(d.Root, n, deep); name != "" {
		return fmt.Errorf(
			"%s shares the YAML anchor %q: write it out, so that it can be changed alone",
			strings.Join(path, "."),
			name,
		)
	}
	return nil
}

// insertBlock writes the entries on lines of their own, below the key that holds them; at the root, below apiVersion
// and kind.
func (d *Document) insertBlock(path []string, fragment *yaml.Node) (string, error) {
	lines := strings.SplitAfter(d.Text, "\n")
	if len(path) == 0 {
		after := d.Root.Content[d.afterHeader()-1].Line
		return d.insertLines(lines, after, d.Root.Content[0].Column-1, fragment)
	}
	if d.isItem(path) {
		item := d.At(path)
		return d.insertLines(lines, entryEnd(lines, item), item.Column-1, fragment)
	}
	key := d.key(path)
	return d.insertLines(lines, key.Line, indentBelow(lines, key.Line), fragment)
}

// insertLines writes the fragment below the first n lines.
func (d *Document) insertLines(lines []string, n, indent int, fragment *yaml.Node) (string, error) {
	text, err := d.encode(fragment)
	if err != nil {
		return "", err
	}
	above := slices.Clone(lines[:n])
	if !strings.HasSuffix(above[n-1], "\n") {
		above[n-1] += d.Newline()
	}
	prefix := strings.Repeat(" ", indent)
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		above = append(above, prefix+line+d.Newline())
	}
	return strings.Join(append(above, lines[n:]...), ""), nil
}

// insertFlow writes the entries behind the opening bracket, on a line of their own where the others are.
func (d *Document) insertFlow(container, fragment *yaml.Node) (string, error) {
	at := d.offset(container)
	open := strings.IndexAny(d.Text[at:], "{[")
	if open < 0 {
		return "", ErrUneditable
	}
	at += open + 1
	text, err := d.encodeFlow(fragment)
	if err != nil {
		return "", err
	}
	text = text[1 : len(text)-1]
	if len(container.Content) > 0 {
		space := leadingSpace(d.Text[at:])
		text += ","
		if strings.Contains(space, "\n") {
			text = space + text
		} else if space == "" {
			text += " "
		}
	}
	return d.Text[:at] + text + d.Text[at:], nil
}

// fillNull gives content to a key that has none, or an explicit null.
func (d *Document) fillNull(path []string, null, fragment *yaml.Node) (string, error) {
	parent, key := d.At(path[:len(path)-1]), d.key(path)
	text := d.Text
	if null.Value != "" {
		at := d.offset(null)
		if isFlow(parent) {
			flow, err := d.encodeFlow(fragment)
			return text[:at] + flow + text[at+len(null.Value):], err
		}
		text = strings.TrimRight(text[:at], " ") + text[at+len(null.Value):]
	}
	if isFlow(parent) {
		return "", ErrUneditable
	}
	return d.insertLines(strings.SplitAfter(text, "\n"), key.Line, key.Column-1+d.indentStep(), fragment)
}

// key returns the key at the end of the path.
func (d *Document) key(path []string) *yaml.Node {
	parent := d.At(path[:len(path)-1])
	return parent.Content[IndexOf(parent, path[len(path)-1])]
}

// afterHeader is the position in the root's Content behind apiVersion and kind.
func (d *Document) afterHeader() int {
	return max(IndexOf(d.Root, "apiVersion"), IndexOf(d.Root, "kind")) + 2
}
