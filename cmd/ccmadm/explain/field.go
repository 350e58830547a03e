package explain

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/docs/schema"
	"github.com/ccmadm/ccmadm/doctor/table"
	"github.com/ccmadm/ccmadm/manifests"
)

// node is a schema, of JSON or of a CustomResourceDefinition, as far as people read it.
type node struct {
	Description string           `json:"description"`
	Type        string           `json:"type"`
	Const       any              `json:"const"`
	Default     any              `json:"default"`
	Enum        []any            `json:"enum"`
	Required    []string         `json:"required"`
	Properties  map[string]*node `json:"properties"`
	Items       *node            `json:"items"`
	// AdditionalProperties is a schema, or whether others are allowed.
	AdditionalProperties json.RawMessage `json:"additionalProperties"`
}

// document is a kind with its schema.
type document struct {
	kind   string
	plural string // of an API object
	root   *node
}

type documentList []document

// kindNames are the kinds in the order in which a field without a kind is looked for.
func kindNames() []string {
	return append(schema.Kinds(), "AddressPool", "BGPPeer", "NodeAgentLease", "NodeAgent", "NodeAnnouncements", "NodeRoutes")
}

func documents() (documentList, error) {
	var list documentList
	for _, kind := range schema.Kinds() {
		text, err := schema.Of(kind)
		if err != nil {
			return nil, err
		}
		root := &node{}
		if err := json.Unmarshal(text, root); err != nil {
			return nil, fmt.Errorf("read the schema of %s: %w", kind, err)
		}
		list = append(list, document{kind: kind, root: root})
	}
	objects, err := manifests.CRDs()
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		d, err := ofDefinition(o)
		if err != nil {
			return nil, fmt.Errorf("read the definition %s: %w", o.GetName(), err)
		}
		list = append(list, *d)
	}
	return list, nil
}

// ofDefinition takes the newest version, which is the last.
func ofDefinition(o *manifests.Object) (*document, error) {
	text, err := json.Marshal(o.Object["spec"])
	if err != nil {
		return nil, err
	}
	var spec struct {
		Names    struct{ Kind, Plural string }
		Versions []struct {
			Schema struct {
				OpenAPIV3Schema *node `json:"openAPIV3Schema"`
			}
		}
	}
	if err := json.Unmarshal(text, &spec); err != nil {
		return nil, err
	}
	if len(spec.Versions) == 0 {
		return nil, fmt.Errorf("it has no version")
	}
	return &document{spec.Names.Kind, spec.Names.Plural, spec.Versions[len(spec.Versions)-1].Schema.OpenAPIV3Schema}, nil
}

// Field is what is shown of a field.
type Field struct {
	Kind string `json:"kind"`
	// Path is empty for the document itself.
	Path        string  `json:"field,omitempty"`
	Type        string  `json:"type"`
	Required    bool    `json:"required,omitempty"`
	Default     any     `json:"default,omitempty"`
	Enum        []any   `json:"enum,omitempty"`
	Description string  `json:"description,omitempty"`
	Fields      []Field `json:"fields,omitempty"`
	// Also are fields of the same path in other kinds.
	Also []string `json:"also,omitempty"`
}

// find finds a field by its path, with or without its kind. Letters may be of either case, unless a kind and a field have the
// same ones: nodeAgent is a field, and NodeAgent a kind.
func (list documentList) find(name string) (*Field, error) {
	path := strings.FieldsFunc(strings.NewReplacer("[]", "", "[*]", "").Replace(name), func(r rune) bool { return r == '.' || r == '/' })
	if len(path) == 0 {
		return nil, list.unknown(name)
	}
	exactly := func(a, b string) bool { return a == b }
	for _, look := range []func() *Field{
		func() *Field { return list.ofKind(path, exactly) },
		func() *Field { return list.anywhere(path) },
		func() *Field { return list.ofKind(path, strings.EqualFold) },
	} {
		if found := look(); found != nil {
			return found, nil
		}
	}
	return nil, list.unknown(name)
}

// ofKind finds a field whose path begins with its kind, or with the plural as kubectl has it.
func (list documentList) ofKind(path []string, same func(a, b string) bool) *Field {
	for _, d := range list {
		if same(d.kind, path[0]) || same(d.plural, path[0]) {
			return d.field(path[1:])
		}
	}
	return nil
}

// anywhere finds a field in the first kind that has it.
func (list documentList) anywhere(path []string) *Field {
	var found *Field
	for _, d := range list {
		switch f := d.field(path); {
		case f == nil:
		case found == nil:
			found = f
		default:
			found.Also = append(found.Also, f.Kind+"."+f.Path)
		}
	}
	return found
}

func (list documentList) unknown(name string) error {
	var known []string
	for _, d := range list {
		for _, path := range d.root.paths("") {
			known = append(known, path, d.kind+"."+path)
		}
	}
	for _, k := range finding.Catalogue() {
		known = append(known, string(k.ID), k.Reason)
	}
	err := finding.Usagef("explain %q: there is no such field and no such finding", name)
	if near := finding.Nearest(name, known); near != "" {
		return err.WithHint("did you mean %s?", near)
	}
	return err.WithHint("kinds are %s; docs/reference/findings.md and docs/reference/lint.md list all IDs", strings.Join(kindNames(), ", "))
}

// field goes down a path; nil: there is no such field.
func (d *document) field(path []string) *Field {
	at, required := d.root, false
	var names []string
	for _, part := range path {
		at = at.below()
		i := slices.IndexFunc(at.names(), func(name string) bool { return strings.EqualFold(name, part) })
		if i < 0 {
			return nil
		}
		name := at.names()[i]
		at, required, names = at.Properties[name], slices.Contains(at.Required, name), append(names, name)
	}
	field := at.describe(d.kind, strings.Join(names, "."), required)
	below := at.below()
	for _, name := range below.names() {
		field.Fields = append(field.Fields, *below.Properties[name].describe("", name, slices.Contains(below.Required, name)))
	}
	return field
}

func (n *node) describe(kind, path string, required bool) *Field {
	text := cmp.Or(n.Description, n.below().Description) // a list has its own, or that of what is in it
	enum := n.Enum
	if enum == nil {
		enum = n.below().Enum
	}
	return &Field{
		Kind: kind, Path: path, Type: n.typeName(), Required: required, Default: cmp.Or(n.Default, n.Const), Enum: enum,
		Description: strings.TrimSpace(text),
	}
}

// below is what has the fields: of a list or a map each of what is in it.
func (n *node) below() *node {
	switch {
	case n.Items != nil:
		return n.Items.below()
	case n.ofMap() != nil:
		return n.ofMap().below()
	}
	return n
}

// ofMap is the schema of a map's values; nil: it is no map.
func (n *node) ofMap() *node {
	if !bytes.HasPrefix(bytes.TrimSpace(n.AdditionalProperties), []byte("{")) {
		return nil
	}
	values := &node{}
	if json.Unmarshal(n.AdditionalProperties, values) != nil {
		return nil
	}
	return values
}

func (n *node) names() []string { return slices.Sorted(maps.Keys(n.Properties)) }

func (n *node) typeName() string {
	switch {
	case n.Items != nil:
		return "list of " + n.Items.typeName()
	case n.ofMap() != nil:
		return "map to " + n.ofMap().typeName()
	}
	return cmp.Or(n.Type, "string")
}

// paths are those of all fields below.
func (n *node) paths(prefix string) []string {
	var list []string
	for name, field := range n.below().Properties {
		list = append(list, prefix+name)
		list = append(list, field.paths(prefix+name+".")...)
	}
	return list
}

func (f *Field) writeText(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "KIND:   %s\n", f.Kind)
	if f.Path != "" {
		fmt.Fprintf(&b, "FIELD:  %s <%s>%s\n", f.Path, f.Type, f.marks())
	}
	for _, e := range f.Enum {
		fmt.Fprintf(&b, "VALUE:  %v\n", e)
	}
	if f.Default != nil {
		fmt.Fprintf(&b, "DEFAULT: %v\n", f.Default)
	}
	fmt.Fprintf(&b, "\nDESCRIPTION:\n  %s\n", strings.ReplaceAll(cmp.Or(f.Description, "none"), "\n", "\n  "))
	if len(f.Fields) > 0 {
		b.WriteString("\nFIELDS:\n")
	}
	if _, err := io.WriteString(out, b.String()); err != nil {
		return err
	}
	if len(f.Fields) > 0 {
		w := table.New(out, "  NAME", "TYPE", "REQUIRED", "DESCRIPTION")
		for _, field := range f.Fields {
			w.Row("  "+field.Path, field.Type, table.YesNo(field.Required), firstSentence(field.Description))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	if len(f.Also) > 0 {
		_, err := fmt.Fprintf(out, "\nALSO:   %s\n", strings.Join(f.Also, ", "))
		return err
	}
	return nil
}

func (f *Field) marks() string {
	if f.Required {
		return " (required)"
	}
	return ""
}

func firstSentence(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if first, _, more := strings.Cut(text, ". "); more {
		return first + "."
	}
	return text
}

// completions are kinds, and the fields of the level that is being typed.
func (list documentList) completions(typed string) []cobra.Completion {
	parent, _, nested := cutLast(typed)
	var found []cobra.Completion
	add := func(name, text string) {
		if strings.HasPrefix(strings.ToLower(name), strings.ToLower(typed)) {
			found = append(found, cobra.CompletionWithDesc(name, firstSentence(text)))
		}
	}
	if !nested {
		for _, d := range list {
			add(d.kind, d.root.Description)
		}
		parent = list[0].kind // whose fields need no kind before them
	}
	field, err := list.find(parent)
	if err != nil {
		return found
	}
	for _, f := range field.Fields {
		if nested {
			f.Path = parent + "." + f.Path
		}
		add(f.Path, f.Description)
	}
	return found
}

func cutLast(text string) (before, after string, found bool) {
	i := strings.LastIndex(text, ".")
	if i < 0 {
		return "", text, false
	}
	return text[:i], text[i+1:], true
}
