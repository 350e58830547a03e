package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/kustomize/kyaml/yaml"
	syaml "sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/minors"
)

// finder compares the tree of a document with a Go type, and keeps what does not fit, with its line. It is asked only
// when the decoder has refused a document: encoding/json stops at the first wrong type, and knows no lines.
//
// +k8s:deepcopy-gen=false
type finder struct {
	root     *yaml.Node // nil where the text is in a dialect that this parser does not read
	lenient  bool
	problems []Problem
	wrong    map[*yaml.Node]bool // values of a wrong type
}

func newFinder(text []byte, lenient bool) *finder {
	f := &finder{lenient: lenient, wrong: map[*yaml.Node]bool{}}
	if doc, err := yaml.Parse(string(text)); err == nil {
		f.root = doc.YNode()
	}
	return f
}

// look finds unknown fields, keys that stand twice, and values of a wrong type.
func (f *finder) look(into reflect.Type) {
	switch {
	case f.root == nil:
	case f.root.Kind == yaml.MappingNode:
		f.value(f.root, into, nil)
	default:
		f.report(f.root.Line, nil, fmt.Errorf("must be a mapping, not %s", shown(f.root)))
	}
}

func (f *finder) value(node *yaml.Node, t reflect.Type, path *field.Path) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	target := node
	if node.Kind == yaml.AliasNode {
		target = node.Alias
	}
	own := reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
	switch {
	case target.Tag == yaml.NodeTagNull: // which means that it was left out
	case !own && t.Kind() == reflect.Struct && target.Kind == yaml.MappingNode:
		f.object(target, fieldsOf(t), path)
	case !own && t.Kind() == reflect.Map && target.Kind == yaml.MappingNode:
		for key, value := range f.pairs(target, path) {
			f.value(value, t.Elem(), path.Key(key.Value))
		}
	case !own && t.Kind() == reflect.Slice && target.Kind == yaml.SequenceNode:
		for i, item := range target.Content {
			f.value(item, t.Elem(), path.Index(i))
		}
	case target.Kind == yaml.ScalarNode && fits(target, t):
	default:
		f.wrongType(node, target, t, path)
	}
}

func (f *finder) object(node *yaml.Node, fields map[string]reflect.Type, path *field.Path) {
	for key, value := range f.pairs(node, path) {
		at := childOf(path, key.Value)
		if t, ok := fields[key.Value]; ok {
			f.value(value, t, at)
			continue
		}
		if f.lenient {
			continue
		}
		f.unknown(key, at, slices.Sorted(maps.Keys(fields)))
	}
}

// unknownField is the error about one.
type unknownField string

func (u unknownField) Error() string { return string(u) }

// UnknownFields finds what a document has and the Go type of like has not, with the line in text and the field that was
// probably meant. The document may be of any API whose types are decoded as Kubernetes' are.
func UnknownFields(text []byte, like any) []Problem {
	f := newFinder(text, false)
	f.look(reflect.TypeOf(like))
	return f.unknownFields()
}

// UnknownNames is [UnknownFields] for a type that is known by its fields' names alone.
func UnknownNames(text []byte, known minors.Fields) []Problem {
	f := newFinder(text, false)
	if f.root != nil {
		f.names(f.root, known, nil)
	}
	return f.unknownFields()
}

func (f *finder) unknownFields() []Problem {
	return slices.DeleteFunc(f.problems, func(p Problem) bool { return !errors.As(p.Err, new(unknownField)) })
}

func (f *finder) names(node *yaml.Node, known minors.Fields, path *field.Path) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	items, list := known[minors.Items]
	switch {
	case node.Kind == yaml.MappingNode && !list:
		for key, value := range f.pairs(node, path) {
			at := childOf(path, key.Value)
			if below, ok := known[key.Value]; !ok {
				f.unknown(key, at, slices.Sorted(maps.Keys(known)))
			} else if below != nil {
				f.names(value, below, at)
			}
		}
	case node.Kind == yaml.SequenceNode && list:
		for i, item := range node.Content {
			f.names(item, items, path.Index(i))
		}
	}
}

func (f *finder) unknown(key *yaml.Node, at *field.Path, known []string) {
	f.report(key.Line, at, unknownField(fmt.Sprintf("unknown field %q%s", at, finding.Meant(key.Value, known))))
}

// pairs are the keys and values of a mapping. A key that stands twice is reported, and seen once. What a merge key
// brings in was seen where it is defined.
func (f *finder) pairs(node *yaml.Node, path *field.Path) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, value *yaml.Node) bool) {
		first := map[string]int{}
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := node.Content[i]
			line, twice := first[key.Value]
			switch {
			case key.Value == "<<":
			case twice:
				f.report(key.Line, childOf(path, key.Value), fmt.Errorf("key %q already set in line %d", key.Value, line))
			default:
				first[key.Value] = key.Line
				if !yield(key, node.Content[i+1]) {
					return
				}
			}
		}
	}
}

func (f *finder) wrongType(node, target *yaml.Node, t reflect.Type, path *field.Path) {
	if f.wrong[node] { // seen before, behind an alias
		return
	}
	want := wanted(t)
	if target.Kind == yaml.ScalarNode && t.Kind() == reflect.String {
		want += " in quotes"
	}
	f.report(node.Line, path, fmt.Errorf("%s: must be %s, not %s", path, want, shown(target)))
	f.wrong[node] = true
}

func (f *finder) report(line int, path *field.Path, err error) {
	at := ""
	if path != nil {
		at = path.String()
	}
	f.problems = append(f.problems, Problem{Line: line, Field: at, Err: err})
}

// rest is what is left of the tree without the values of a wrong type, as JSON.
func (f *finder) rest() ([]byte, error) {
	f.prune(f.root)
	text, err := yaml.NewRNode(f.root).String()
	if err != nil {
		return nil, err
	}
	return syaml.YAMLToJSON([]byte(text))
}

// prune takes the field away with its value; an item of a list becomes nothing, so that the others stay where they are.
func (f *finder) prune(node *yaml.Node) {
	var kept []*yaml.Node
	for i, child := range node.Content {
		switch {
		case node.Kind == yaml.MappingNode && i%2 == 0:
			if !f.wrong[node.Content[i+1]] {
				kept = append(kept, child)
			}
		case !f.wrong[child]:
			f.prune(child)
			kept = append(kept, child)
		case node.Kind == yaml.SequenceNode:
			kept = append(kept, &yaml.Node{Kind: yaml.ScalarNode, Tag: yaml.NodeTagNull, Value: "null"})
		}
	}
	node.Content = kept
}

// add keeps what validation says, but not of a field of which something was said already.
func (f *finder) add(errs field.ErrorList) {
	known := len(f.problems)
	for _, err := range errs {
		said := false
		for _, p := range f.problems[:known] {
			rest, below := strings.CutPrefix(err.Field, p.Field)
			said = said || below && (rest == "" || rest[0] == '.' || rest[0] == '[')
		}
		if !said {
			f.problems = append(f.problems, Problem{Line: f.lineOf(err.Field), Field: err.Field, Err: err})
		}
	}
}

var element = regexp.MustCompile(`[^.\[\]]+|\[[^\]]+\]`)

// lineOf is that of the field, or of the nearest one above it that is there.
func (f *finder) lineOf(path string) int {
	node, line := f.root, 1
	for _, part := range element.FindAllString(path, -1) {
		next, at := step(node, strings.Trim(part, "[]"))
		if next == nil {
			break
		}
		node, line = next, at
	}
	return line
}

// step goes down by a key or an index, and says on which line it stands.
func step(node *yaml.Node, part string) (*yaml.Node, int) {
	if node != nil && node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	switch {
	case node == nil:
	case node.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == part {
				return node.Content[i+1], node.Content[i].Line
			}
		}
	case node.Kind == yaml.SequenceNode:
		if i, err := strconv.Atoi(part); err == nil && i < len(node.Content) {
			return node.Content[i], node.Content[i].Line
		}
	}
	return nil, 0
}

func childOf(path *field.Path, name string) *field.Path {
	if path == nil {
		return field.NewPath(name)
	}
	return path.Child(name)
}

var yamlLine = regexp.MustCompile(`\bline (\d+)`)

// lineIn is the line that an error of the YAML library names, or 0.
func lineIn(err error) int {
	m := yamlLine.FindStringSubmatch(err.Error())
	if m == nil {
		return 0
	}
	line, _ := strconv.Atoi(m[1]) // digits
	return line
}
